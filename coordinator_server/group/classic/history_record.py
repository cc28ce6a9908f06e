"""How a finished rebalance gets into the log: headers on the group's record, and its own record.

Whoever does not know them ignores them: headers are not part of a record's key and value, and
Kafka skips record types it does not know.
"""

from typing import Final

from coordinator_protocol.history import MAX_HISTORY_BYTES, RebalanceHistoryKey
from coordinator_protocol.history_writer import cut_text
from coordinator_protocol.record_headers import PackedHeaders, sized
from coordinator_protocol.varints import varint
from coordinator_protocol.writing import Words
from coordinator_server.group.context import RECORD_OVERHEAD
from coordinator_server.group.rebalance_events import RebalanceEvent

MAX_HEADER_BYTES: Final = 1_024
"""Names and values of all headers of a record together; every text is cut so that this holds."""


def story_bytes(group_id: str) -> int:
    """More than the story of a rebalance takes in the log, beside the group's record."""
    return MAX_HEADER_BYTES + MAX_HISTORY_BYTES + RECORD_OVERHEAD + 4 * len(group_id)


def history_key(event: RebalanceEvent) -> RebalanceHistoryKey:
    """Under what the log has a rebalance."""
    return RebalanceHistoryKey(event.group_id, event.generation_after, event.sequence)


def headers(event: RebalanceEvent) -> PackedHeaders:
    """The headers of the group's record about the rebalance that it ends, in UTF-8."""
    culprit = event.culprit
    told = [
        b"",
        _REASON,
        _WORDS[event.reason],
        _OUTCOME,
        _WORDS[event.outcome],
        _MEMBER,
        _text(culprit.member_id, 255),
        _CLIENT,
        _text(culprit.client_id, 100),
        _HOST,
        _text(culprit.client_host, 64),
        _START,
        _number(event.started_ms),
        _JOIN_END,
        _number(event.started_ms + event.join_phase_ms),
        _END,
        _number(event.ended_ms),
        _PREV_GEN,
        _number(event.generation_before),
        _PREV_STATE,
        _WORDS[event.state_before],
        _SEQUENCE,
        _number(event.sequence),
        _MEMBERS_BEFORE,
        _number(event.members_before),
    ]
    if culprit.group_instance_id is not None:
        told += (_INSTANCE, _text(culprit.group_instance_id, 100))
    if event.client_reason:
        told += (_CLIENT_REASON, _text(event.client_reason, 160))
    joined, left, evicted, _, _ = event.counts
    if joined:
        told += (_JOINED, _number(joined))
    if left:
        told += (_LEFT, _number(left))
    if evicted:
        told += (_EVICTED, _number(evicted))
    told[0] = varint(len(told) // 2)
    return b"".join(told)


def _name(name: str) -> bytes:
    return sized(f"rb.{name}".encode())


_REASON: Final = _name("reason")
_OUTCOME: Final = _name("outcome")
_MEMBER: Final = _name("member")
_CLIENT: Final = _name("client")
_HOST: Final = _name("host")
_START: Final = _name("start")
_JOIN_END: Final = _name("join_end")
_END: Final = _name("end")
_PREV_GEN: Final = _name("prev_gen")
_PREV_STATE: Final = _name("prev_state")
_SEQUENCE: Final = _name("sequence")
_MEMBERS_BEFORE: Final = _name("members_before")
_INSTANCE: Final = _name("instance")
_CLIENT_REASON: Final = _name("client_reason")
_JOINED: Final = _name("joined")
_LEFT: Final = _name("left")
_EVICTED: Final = _name("evicted")


def _text(text: str, limit: int) -> bytes:
    return sized(cut_text(text, limit))


def _word(word: str) -> bytes:
    return sized(word.encode())


_WORDS: Final = Words(_word)
"""The names of reasons, outcomes and states."""


def _digits(number: int) -> bytes:
    return sized(b"%d" % number)


_NUMBERS: Final = [_digits(number) for number in range(0x100)]
"""The usual form of values that are no times."""


def _number(number: int) -> bytes:
    return _NUMBERS[number] if 0 <= number < 0x100 else _digits(number)
