"""Attacks with many connections: silent, garbled, half a request, HTTP."""

import random
import struct
import time
from contextlib import suppress
from functools import partial

from tests.abuse.attack import Attack
from tests.abuse.attacks.memory import together
from tests.abuse.client import Target, raw_frame, reset


def accept_storm(target: Target) -> None:
    """Connect and disconnect 10,000 times, with and without a request."""
    request = raw_frame(18, 0, b"")

    def storm(number: int) -> None:
        for attempt in range(2_500):
            if not target.left:
                return
            with suppress(OSError):
                connection = target.connect()
                if (attempt + number) % 2:
                    connection.sendall(request)
                reset(connection)

    together([partial(storm, number) for number in range(4)])


def silent(target: Target) -> None:
    """Hold 3,000 connections that send nothing, or half a frame."""
    with target.connections(3_000) as opened:
        for number, connection in enumerate(opened):
            if number % 2:
                with suppress(OSError):
                    connection.sendall(struct.pack(">i", 1_000) + bytes(500))
        time.sleep(target.left)


def garbage(target: Target) -> None:
    """Send random bytes and broken frames on 20,000 connections."""
    chance = random.Random(1)

    def send() -> None:
        for _ in range(5_000):
            if not target.left:
                return
            data = chance.randbytes(chance.randrange(1, 300))
            if chance.random() < 0.7:
                data = struct.pack(">ihh", len(data) + 4, chance.randrange(50), 1) + data
            with suppress(OSError):
                connection = target.connect()
                connection.sendall(data)
                target.count("bytes sent", len(data))
                connection.close()

    together([send] * 4)


def half_http(target: Target) -> None:
    """Hold 500 HTTP connections with half a request each."""
    with target.connections(500, target.http_port) as opened:
        for connection in opened:
            with suppress(OSError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
        time.sleep(target.left)


def event_streams(target: Target) -> None:
    """Hold 500 HTTP connections that stream events and read nothing."""
    with target.connections(500, target.http_port) as opened:
        for connection in opened:
            with suppress(OSError):
                connection.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(target.left)


def http_flood(target: Target) -> None:
    """Ask for every page on 50 connections without reading."""
    pages = ("/metrics", "/api/groups", "/", "/readyz", "/api/openapi.json", "/nowhere")
    burst = b"".join(f"GET {page} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for page in pages)
    with target.connections(50, target.http_port) as opened:
        for connection in opened:
            connection.setblocking(False)
        while target.left:
            for connection in opened:
                with suppress(OSError):
                    target.count("bytes sent", connection.send(burst))
            time.sleep(0.01)


ATTACKS = (
    Attack("accept-storm", "10,000 connections that are reset at once", accept_storm, seconds=12),
    Attack("silent", "3,000 connections with nothing or half a frame", silent),
    Attack("garbage", "20,000 connections with random bytes", garbage, seconds=12),
    Attack("half-http", "500 half-sent HTTP requests", half_http),
    Attack("event-streams", "500 unread streams of /api/events", event_streams),
    Attack("http-flood", "50 HTTP connections ask for all pages and read nothing", http_flood),
)
