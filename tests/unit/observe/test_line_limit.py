"""Lines of the log that any client can cause: limited per kind and host, and all accounted for."""

from typing import Any

from coordinator_server.observe.line_limit import MOST_HOSTS, MOST_PER_SECOND, LineLimiter


class Log:
    """The lines that were written, and a clock."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.now_ms = 0
        self.limiter = LineLimiter(self._write, lambda: self.now_ms)

    def _write(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    def end(self, reason: str, host: str) -> None:
        self.limiter.report("session_ended", reason, host, reason=reason)

    def counted(self) -> int:
        """The lines that were written, and those that a line says were left out."""
        told: int = sum(
            fields.get("suppressed", 0) + fields.get("lines", 0) for _, fields in self.lines
        )
        return told + [event for event, _ in self.lines].count("session_ended")


def test_a_host_has_one_line_of_a_kind_a_second_with_the_number_of_those_left_out() -> None:
    log = Log()
    for log.now_ms in (0, 1, 999, 1_000, 1_500, 2_000):
        log.end("malformed", "/10.0.0.1")
    assert [fields.get("suppressed") for _, fields in log.lines] == [None, 2, 1]
    assert log.lines[0] == ("session_ended", {"host": "/10.0.0.1", "reason": "malformed"})


def test_another_kind_or_host_has_lines_of_its_own() -> None:
    log = Log()
    for reason, host in (("malformed", "a"), ("too_large", "a"), ("malformed", "b")):
        log.end(reason, host)
    assert len(log.lines) == 3


def test_many_hosts_have_ten_lines_of_a_kind_a_second_together() -> None:
    log = Log()
    for number in range(100):
        log.end("malformed", f"/10.0.0.{number}")
    assert len(log.lines) == MOST_PER_SECOND
    log.end("too_large", "/10.0.0.1")
    assert len(log.lines) == MOST_PER_SECOND + 1


def test_lines_left_out_are_reported_though_none_follows() -> None:
    log = Log()
    for _ in range(5):
        log.end("malformed", "/10.0.0.1")
    log.limiter.flush()
    assert len(log.lines) == 1
    log.now_ms = 1_000
    log.limiter.flush()
    assert log.lines[1] == (
        "log_lines_suppressed",
        {"of": "session_ended", "reason": "malformed", "host": "/10.0.0.1", "lines": 4},
    )
    log.now_ms = 2_000
    log.limiter.flush()
    assert len(log.lines) == 2
    assert not log.limiter._places, "quiet hosts are forgotten"


def test_no_line_is_lost_whatever_hosts_come_and_memory_is_bounded() -> None:
    log = Log()
    ended = 3 * MOST_HOSTS
    for number in range(ended):
        log.end("malformed", f"host-{number}")
    assert len(log.limiter._places) <= MOST_HOSTS + 1
    for second in range(1, 2_000):
        log.now_ms = second * 1_000
        log.limiter.flush()
    assert log.counted() == ended
