"""How many connections there may be: `max.connections` and `max.connections.per.ip`."""


class ConnectionLimits:
    """Counts the connections there are, in all and by address.

    Unlike Kafka, which lets what exceeds `max.connections` wait in the listen queue, a connection
    too many is closed at once: its client learns of it, and so does the log.
    """

    def __init__(self, max_connections: int, max_per_ip: int) -> None:
        self.total = 0
        self._max = max_connections
        self._max_per_ip = max_per_ip
        self._by_ip: dict[str, int] = {}

    def admit(self, ip: str) -> str | None:
        """Count a connection; or the property that forbids it."""
        if self.total >= self._max:
            return "max.connections"
        there = self._by_ip.get(ip, 0)
        if there >= self._max_per_ip:
            return "max.connections.per.ip"
        self.total += 1
        self._by_ip[ip] = there + 1
        return None

    def release(self, ip: str) -> None:
        """A connection that was admitted is gone."""
        self.total -= 1
        left = self._by_ip.pop(ip) - 1
        if left:
            self._by_ip[ip] = left
