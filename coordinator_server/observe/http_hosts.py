"""Which Host headers HTTP accepts: a guard against DNS rebinding.

A web page of a stranger can let the name it came from point to 127.0.0.1, and then ask this server
as if it were the stranger's. The browser still sends the stranger's name as Host, so names are
accepted only if no stranger can own them.
"""

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final

from aiohttp import web

from coordinator_server.observe.http_answers import Handler, error
from coordinator_server.observe.printable_text import printable

MISDIRECTED: Final = 421


class AllowedHosts:
    """The names under which this server may be asked.

    Beside those that are given: addresses, `localhost`, names without a dot, which the public DNS
    does not have (services of Docker Compose, hosts of the local network), and this machine's name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` may begin with `*.`, for all names below; `*` alone allows every name."""
        known = {_plain(name) for name in (*names, socket.gethostname())}
        self._names = frozenset(name for name in known if not name.startswith("*"))
        self._below = tuple(name[1:] for name in known if name.startswith("*."))
        self._all = "*" in known

    def has(self, host: str | None) -> bool:
        """Whether a Host header is accepted; browsers never leave it out."""
        if host is None or self._all:
            return True
        name = _plain(_without_port(host))
        return (
            "." not in name.strip(".")
            or name in self._names
            or name.endswith((".localhost", *self._below))
            or _is_address(name)
        )

    def middleware(self) -> Any:
        """Answers 421 Misdirected Request for other names."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            host = request.headers.get("Host")
            if self.has(host):
                return await handler(request)
            shown = printable(host or "")[:255]
            return error(
                MISDIRECTED,
                f"The Host header names {shown}, which is none of this server's names. "
                "Add the name to http.allowed.hosts, or use an address.",
            )

        return check


def _plain(name: str) -> str:
    return name.strip().lower().rstrip(".")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
