"""Parses and checks listeners: `NAME://host:port`, several separated by commas.

Kafka's counterpart is SocketServerConfigs.listenerListToEndPoints and KafkaConfig's checks.
"""

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ANY_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, never bound
MAX_PORT = 65_535

_LISTENER = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>\d+)"
)
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d+)")


class Listener(NamedTuple):
    """One listener; `host` is empty for all interfaces, port 0 asks the system for a free one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        """The form in which it is configured."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Address(NamedTuple):
    """Host and port, for example of the HTTP server."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`, with brackets round an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_listeners(text: str) -> tuple[Listener, ...]:
    """Parse a list of listeners. Raises ValueError naming the one that is wrong."""
    listeners = tuple(_parse_listener(part.strip()) for part in text.split(",") if part.strip())
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"listener {name} occurs twice, expected each name once")
    return listeners


def _parse_listener(text: str) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a listener, expected NAME://host:port")
    host = match["v6"] if match["v6"] is not None else match["host"]
    return Listener(match["name"].upper(), host, _port(match["port"], text))


def parse_address(text: str) -> Address:
    """Parse `host:port` or `[v6]:port`. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an address, expected host:port")
    return Address(match["v6"] or match["host"], _port(match["port"], text))


def _port(digits: str, text: str) -> int:
    port = int(digits)
    if port > MAX_PORT:
        raise ValueError(f"{text!r}: port {port}, expected 0 to {MAX_PORT}")
    return port


def parse_protocol_map(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `NAME:PROTOCOL,...` into pairs. Raises ValueError."""
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (piece.strip().upper() for piece in part.partition(":"))
        if not colon or protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            raise ValueError(f"{part!r} is not NAME:PROTOCOL with PROTOCOL one of {known}")
        pairs.append((name, protocol))
    return tuple(pairs)


def listener_problems(listeners: Sequence[Listener], protocols: dict[str, str]) -> Iterable[str]:
    """Problems of `listeners`, given the security protocol of each name."""
    if not listeners:
        yield "no listener, expected at least one NAME://host:port"
    for at, listener in enumerate(listeners):
        protocol = protocols.get(listener.name)
        if protocol is None:
            yield (
                f"listener {listener.name} has no security protocol, "
                "expected an entry in listener.security.protocol.map"
            )
        elif protocol != "PLAINTEXT":
            yield f"listener {listener.name} is {protocol}, expected PLAINTEXT"
        for other in listeners[:at]:
            if listener.port and listener.port == other.port and not _share(listener, other):
                yield f"{other} and {listener} have the same port, expected distinct ports"


def _share(one: Listener, other: Listener) -> bool:
    """Whether two listeners may share a port: one has an IPv4, one an IPv6 address."""
    return {_is_v6(one.host), _is_v6(other.host)} == {True, False}


def _is_v6(host: str) -> bool | None:
    try:
        return isinstance(ip_address(host), IPv6Address)
    except ValueError:
        return None


def advertised_problems(
    advertised: Sequence[Listener], listeners: Sequence[Listener]
) -> Iterable[str]:
    """Problems of `advertised.listeners`."""
    names = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.name not in names:
            yield f"{listener.name} is not a listener, expected one of {', '.join(names)}"
        if listener.host in ANY_HOSTS:
            yield f"{listener} has no reachable host, expected a host name or an address"


def undialable_problems(
    advertised: Sequence[Listener], listeners: Sequence[Listener]
) -> Iterable[str]:
    """Problems of listeners on all interfaces without an advertised address."""
    told = {listener.name for listener in advertised}
    for listener in listeners:
        if listener.host in ANY_HOSTS[1:] and listener.name not in told:
            yield (
                f"clients cannot connect to {listener}, "
                f"expected advertised.listeners={listener.name}://HOST:{listener.port} beside it"
            )


def port_problems(
    listeners: Iterable[Listener], workers: int, step: int
) -> Iterable[tuple[str, str]]:
    """Problems of ports of workers: too large, or used twice."""
    taken: dict[int, str] = {}
    for index in range(workers):
        for listener in listeners:
            port = listener.port + index * step
            if not listener.port:
                continue
            who = f"{listener.name} of worker {index}"
            if port > MAX_PORT:
                yield "workers", f"{who} would have port {port}, expected at most {MAX_PORT}"
                return
            if index and taken.get(port, "").rpartition(" ")[2] not in ("", str(index)):
                yield (
                    "workers.port.step",
                    f"{who} and {taken[port]} have port {port}, expected distinct ports",
                )
                return
            taken[port] = who


Resolve = Callable[[str], Sequence[str]]


def resolve_host(host: str) -> Sequence[str]:
    """The addresses of a host; this may wait for a name server. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found})


def advertised_warnings(
    listeners: Sequence[Listener],
    advertised: Sequence[Listener],
    resolve: Resolve = resolve_host,
) -> Iterable[str]:
    """Warnings about advertised hosts that clients probably cannot reach, with a remedy."""
    bound = {listener.name: listener for listener in listeners}
    for told in advertised:
        try:
            addresses = resolve(told.host)
        except OSError as error:
            yield (
                f"advertised.listeners: host {told.host!r} of {told} does not resolve here "
                f"({error}); clients connect to it after their first request: advertise a name "
                "or an address that they can reach"
            )
            continue
        local = bound.get(told.name)
        if local and _loopback(local.host) and not any(_loopback(a) for a in addresses):
            yield (
                f"advertised.listeners: {told} resolves to {', '.join(addresses)}, but {local} is "
                "only reachable from this machine; set "
                f"listeners={local.name}://0.0.0.0:{local.port}"
            )


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
