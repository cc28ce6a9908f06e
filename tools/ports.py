"""Ports for servers that are started to be tried."""

import random
import socket

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""No connection takes one of these between the look and the start, or while a server restarts."""

_CHOICE = random.SystemRandom()  # that of tests is seeded, which would choose alike in two of them


def free_port(in_a_row: int = 1) -> int:
    """The first of so many ports that nobody listens on; raises RuntimeError when there is none."""
    for first in _CHOICE.sample(_BELOW_EPHEMERAL, 100):
        if all(_is_free(port) for port in range(first, first + in_a_row)):
            return first
    found = f"between {_BELOW_EPHEMERAL.start} and {_BELOW_EPHEMERAL.stop - 1}"
    raise RuntimeError(f"no {in_a_row} free ports in a row {found}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
