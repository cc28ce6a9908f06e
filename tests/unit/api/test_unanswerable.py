"""An answer that cannot be made: whoever asked hears of an error, and the session goes on."""

from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Fetched, Joined, Refuse, Result, Rule
from coordinator_server.group.events import Event
from coordinator_server.runtime.answering import resolve
from tests.support.session_harness import SessionHarness, heartbeat, request

LONG = "\ufffd" * 20_000
"""What is repaired becomes longer: the protocol cannot carry it any more."""


def join() -> bytes:
    return request(
        11,
        5,
        1,
        group_id="g",
        protocol_type="consumer",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )


def fetch() -> bytes:
    return request(9, 7, 1, group_id="g", topics=None)


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        (join(), Refuse(ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_UNKNOWN, "no member", LONG)),
        (join(), Joined(LONG, 1, "consumer", "range", LONG, [])),
        (fetch(), Fetched([(LONG, [(0, None)])])),
    ],
)
def test_what_the_protocol_cannot_carry_is_answered_with_an_error(
    asked: bytes, result: Result
) -> None:
    talk = SessionHarness()
    tokens: list[Any] = []

    def script(_group_id: str, event: Event) -> Result | None:
        tokens.append(getattr(event, "token", None))
        return None

    talk.coordinator.script = script
    talk.send(asked)
    resolve(tokens[0], result)
    (answer,) = talk.answers()
    assert answer[:4] == b"\0\0\0\1"
    assert [report[0] for report in talk.reports] == ["request_failed"]
    talk.send(heartbeat(2))
    assert len(tokens) == 2
