"""Which lines the log has about groups, by its level and its format."""

import json
import os
from collections.abc import Callable

import pytest

from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    Observation,
    OffsetsRemoved,
    OffsetsRemovedReason,
    RebalanceEvent,
    RebalanceStarted,
    Refused,
    RemovalReason,
)
from coordinator_server.observe import log
from coordinator_server.observe.group_lines import GroupLines

BOB = Culprit("bob-1", None, "bob", "/127.0.0.1")


@pytest.fixture
def everything(
    make_event: Callable[..., RebalanceEvent], started: RebalanceStarted
) -> list[Observation]:
    """One observation of every kind that the log tells of."""
    return [
        started,
        make_event(),
        MemberRemoved("orders", RemovalReason.SESSION_EXPIRED, BOB),
        OffsetsRemoved("orders", OffsetsRemovedReason.EXPIRED, 3),
        Refused(0, "orders", "Heartbeat", "UNKNOWN_MEMBER_ID", "unknown", "who?", BOB),
    ]


def written(pipe: tuple[int, int], told: list[Observation], level: str, line_format: str) -> str:
    """What the log has of observations."""
    reader, fd = pipe
    log.configure(level=level, line_format=line_format, fd=fd)
    lines = GroupLines()
    for observation in told:
        lines.observe(observation)
    log.get_logger().error("the_end")
    log.close()
    return os.read(reader, 1 << 20).decode()


CHANGES = ["rebalance", "member_removed", "offsets_removed"]


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["rebalance_started", *CHANGES, "refused"]),
        ("info", CHANGES),
        ("warning", []),
        ("error", []),
    ],
)
def test_the_level_decides_which_lines_there_are(
    pipe: tuple[int, int], everything: list[Observation], level: str, events: list[str]
) -> None:
    lines = written(pipe, everything, level, "json").splitlines()
    assert [json.loads(line)["event"] for line in lines] == [*events, "the_end"]


def test_on_a_terminal_a_rebalance_is_told_as_other_lines_are(
    pipe: tuple[int, int], everything: list[Observation]
) -> None:
    lines = written(pipe, everything, "info", "console").splitlines()
    assert [line.split("] ")[1].split()[0] for line in lines] == [*CHANGES, "the_end"]
    assert "member_joined" in lines[0]
