import json
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from coordinator_server.group.rebalance_events import Culprit, RebalanceEvent
from coordinator_server.observe import log
from coordinator_server.observe.group_lines import MAX_LISTED, GroupLines
from coordinator_server.observe.line_writer import GATHER_SECONDS, LineWriter


def read_lines(reader: int) -> list[dict[str, Any]]:
    log.close()
    return [json.loads(line) for line in os.read(reader, 1 << 20).splitlines()]


def test_a_line_is_json_with_time_level_and_event_first(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(line_format="json", fd=fd)
    log.get_logger().info("server_started", node=1, port=9092)
    (line,) = read_lines(reader)
    assert list(line) == ["timestamp", "level", "event", "node", "port"]
    assert (line["level"], line["event"], line["port"]) == ("info", "server_started", 9092)
    assert line["timestamp"].endswith("Z")


def test_lines_below_the_level_are_left_out(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(level="warning", line_format="json", fd=fd)
    logger = log.get_logger()
    logger.debug("a")
    logger.info("b")
    logger.warning("c")
    logger.error("d")
    assert [line["event"] for line in read_lines(reader)] == ["c", "d"]


def test_what_an_operator_should_look_at_is_a_warning(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(line_format="json", fd=fd)
    bad = ("partition_load_failed", "tenure_ended", "connection_refused")
    for event in ("server_started", *bad, "failed_over"):
        log.report(log.get_logger(), event, {"partition": 3})
    lines = [(line["level"], line["event"], line["partition"]) for line in read_lines(reader)]
    assert lines == [
        ("info", "server_started", 3),
        ("warning", "partition_load_failed", 3),
        ("warning", "tenure_ended", 3),
        ("warning", "connection_refused", 3),
        ("info", "failed_over", 3),
    ]


def test_console_lines_are_for_people(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(line_format="console", fd=fd)
    log.get_logger().warning("torn_tail_cut", bytes=17)
    log.close()
    text = os.read(reader, 1 << 16).decode()
    assert "warning" in text
    assert "torn_tail_cut" in text
    assert "bytes=17" in text
    assert "\x1b" not in text


def test_without_a_terminal_the_automatic_format_is_json(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(fd=fd)
    log.get_logger().info("x")
    assert read_lines(reader)[0]["event"] == "x"


def test_text_that_is_no_text_is_escaped(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(line_format="json", fd=fd)
    log.get_logger().info("x", client_id="\ud800\n", raw=b"\xff")
    (line,) = read_lines(reader)
    assert line["client_id"] == "\ud800\n"
    assert line["raw"] == "b'\\xff'"


def test_a_reader_that_stopped_costs_lines_and_says_how_many(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd, lambda lost: f"lost {lost}", max_waiting=10)
    line = "x" * (1 << 20)
    for _ in range(30):
        writer.write(line)
    received = b""
    while b"lost " not in received:
        received += os.read(reader, 1 << 20)
    writer.close()
    *kept, last = received.decode().splitlines()
    assert set(kept) == {line}
    assert last == f"lost {30 - len(kept)}"
    assert len(kept) <= 12


def test_however_many_lines_come_they_are_gathered_once_and_written_without_a_pause(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, fd = pipe
    everything_has_come = threading.Event()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        everything_has_come.wait(30)

    monkeypatch.setattr(time, "sleep", pause)
    writer = LineWriter(fd, str)
    line = "x" * 1_000
    for _ in range(5_000):
        writer.write(line)
    everything_has_come.set()
    received = 0
    while received < 5_000 * len(f"{line}\n"):
        received += len(os.read(reader, 1 << 20))
    writer.close()
    assert pauses == [GATHER_SECONDS]


def test_a_log_that_nobody_reads_any_more_ends_nothing() -> None:
    reader, fd = os.pipe()
    os.close(reader)
    writer = LineWriter(fd, str)
    writer.write("x")
    writer.close()
    os.close(fd)


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="level='loud', expected debug, info"):
        log.configure(level="loud")


def test_a_rebalance_is_one_line_with_reason_and_culprit(
    pipe: tuple[int, int], make_event: Callable[..., RebalanceEvent]
) -> None:
    reader, fd = pipe
    log.configure(line_format="json", fd=fd)
    crowd = tuple(Culprit(f"m{i}", None, "m", "/127.0.0.1") for i in range(5000))
    GroupLines().observe(make_event(joined=crowd))
    (line,) = read_lines(reader)
    assert line["event"] == "rebalance"
    assert (line["group"], line["reason"]) == ("orders", "member_joined")
    assert line["culprit"]["client_id"] == "bob"
    assert line["generation_after"] == 2
    assert len(line["joined"]) == MAX_LISTED


def test_what_a_library_says_is_a_line_as_any_other(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(line_format="json", fd=fd)
    bug = ValueError("a bug")
    logging.getLogger("asyncio").error("nobody awaits %s", "it", exc_info=bug)
    (line,) = read_lines(reader)
    assert (line["level"], line["event"], line["name"]) == ("error", "library_message", "asyncio")
    assert line["message"] == "nobody awaits it"
    assert "ValueError: a bug" in line["exception"]


def test_a_request_that_is_no_http_is_a_line_without_a_stack_trace(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    log.configure(line_format="json", fd=fd)
    refused = BadHttpMessage("Missing\n 'Host'")
    logging.getLogger("aiohttp.server").error("Error handling request", exc_info=refused)
    (line,) = read_lines(reader)
    assert (line["level"], line["event"]) == ("info", "http_request_refused")
    assert line["error"] == "400, message: Missing 'Host'"
    assert "exception" not in line
