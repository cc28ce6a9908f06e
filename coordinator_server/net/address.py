"""A client's address as Kafka shows it in member descriptions: `/1.2.3.4`."""

from ipaddress import IPv6Address
from typing import Any


def peer_host(peername: Any) -> str:
    """`InetAddress.toString` of a socket's peer; an IPv4 address in IPv6 clothing is IPv4."""
    if not isinstance(peername, tuple) or not peername:
        return "/unknown"
    host, _, scope = str(peername[0]).partition("%")
    if ":" not in host:
        return f"/{host}"
    address = IPv6Address(host)
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    groups = address.exploded.split(":")
    plain = ":".join(f"{int(group, 16):x}" for group in groups)
    return f"/{plain}%{scope}" if scope else f"/{plain}"
