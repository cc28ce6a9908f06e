"""The sockets of a listener: one for each of its addresses."""

import socket

from coordinator_server.config.listeners import Listener


def bind(listener: Listener) -> list[socket.socket]:
    """Sockets for all addresses of a listener on one port. Raises OSError that names it."""
    try:
        return _bind(listener.host, listener.port)
    except OSError as error:
        raise OSError(f"listener {listener} cannot be opened: {error}") from error


def _bind(host: str, port: int) -> list[socket.socket]:
    """Sockets for all addresses of a host on one port; all interfaces for an empty host."""
    if not host:
        if socket.has_dualstack_ipv6():
            both = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
            return [both]
        return [socket.create_server(("", port))]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = {(family, str(address[0])) for family, _, _, _, address in found}
    sockets: list[socket.socket] = []
    for family, address in sorted(addresses):
        try:
            each = socket.create_server((address, port), family=family)
        except OSError:
            if not sockets:
                raise
            continue
        sockets.append(each)
        port = each.getsockname()[1]
    return sockets
