"""Writes a finished rebalance for the coordinator's log; the layout is told in history.py."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from coordinator_protocol.history import (
    HISTORY_VERSION,
    MAX_HISTORY_BYTES,
    MAX_HISTORY_TEXT,
    HistoryMember,
    PackedHistory,
    RebalanceHistoryValue,
)
from coordinator_protocol.varints import ONE_BYTE, uvarint
from coordinator_protocol.writing import Words

_FIXED: Final = struct.Struct(">hqiqqiqq7i")
"""The fixed fields."""


def encode_history(value: RebalanceHistoryValue) -> PackedHistory:
    """The bytes of a value; lists are halved until they fit `MAX_HISTORY_BYTES`."""
    raw = _encode(value)
    if len(raw) <= MAX_HISTORY_BYTES:
        return raw
    limit = max(map(len, _lists(value)))
    while len(raw) > MAX_HISTORY_BYTES:
        limit //= 2
        value = replace(
            value,
            joined=value.joined[:limit],
            left=value.left[:limit],
            evicted=value.evicted[:limit],
            waited_for=value.waited_for[:limit],
            rounds=value.rounds[:limit],
        )
        raw = _encode(value)
    return raw


def _lists(value: RebalanceHistoryValue) -> tuple[Sequence[object], ...]:
    return value.joined, value.left, value.evicted, value.waited_for, value.rounds


def _encode(value: RebalanceHistoryValue) -> bytes:
    culprit = value.culprit
    members = _Members(culprit)
    told = [uvarint(len(value.waited_for) + 1)]
    for member, waited_ms in value.waited_for:
        told += (members.index(member), waited_ms.to_bytes(8, "big", signed=True))
    told.append(uvarint(len(value.rounds) + 1))
    for reason, member, client_reason in value.rounds:
        told.append(_WORDS[reason])
        told.append(members.index(member))
        told.append(_nullable(client_reason))
    told.append(b"\0")
    joined = members.indexes(value.joined)
    left = members.indexes(value.left)
    evicted = members.indexes(value.evicted)
    members_before, members_after, come, gone, removed, awaited, rounds = value.counts
    parts = [
        _FIXED.pack(
            HISTORY_VERSION,
            value.sequence,
            value.generation_after,
            value.ended_ms,
            value.started_ms,
            value.generation_before,
            value.join_phase_ms,
            value.sync_phase_ms,
            members_before,
            members_after,
            come,
            gone,
            removed,
            awaited,
            rounds,
        ),
        _WORDS[value.reason],
        _WORDS[value.outcome],
        _WORDS[value.state_before],
        members.told(),
        _CULPRIT,
        _nullable(value.client_reason),
        joined,
        left,
        evicted,
    ]
    parts.extend(told)
    return b"".join(parts)


class _Members:
    """Those that are mentioned, in the order of their first mention; the culprit is the first."""

    __slots__ = ("_culprit", "_numbers")

    def __init__(self, culprit: HistoryMember) -> None:
        self._culprit = culprit
        self._numbers: dict[HistoryMember, int] = {}
        """Empty until somebody else is mentioned: most often nobody is."""

    def index(self, member: HistoryMember) -> bytes:
        """The index of a member."""
        if member is self._culprit:
            return _CULPRIT
        if not self._numbers:
            self._numbers[self._culprit] = 0
        return uvarint(self._numbers.setdefault(member, len(self._numbers)))

    def indexes(self, members: Sequence[HistoryMember]) -> bytes:
        """An array of such."""
        if not members:
            return _NO_MEMBERS
        if len(members) == 1 and members[0] is self._culprit:
            return _CULPRIT_ALONE
        return uvarint(len(members) + 1) + b"".join([self.index(member) for member in members])

    def told(self) -> bytes:
        """The array of all."""
        if not self._numbers:
            return _ONE_MEMBER + _member(self._culprit)
        return uvarint(len(self._numbers) + 1) + b"".join(map(_member, self._numbers))


def _member(member: HistoryMember) -> bytes:
    member_id, instance_id, client_id, host = member
    return _text(member_id) + _nullable(instance_id) + _text(client_id) + _text(host)


_ONE_MEMBER: Final = uvarint(2)
_NO_MEMBERS: Final = uvarint(1)
_CULPRIT: Final = uvarint(0)
"""The culprit is mentioned first."""
_CULPRIT_ALONE: Final = uvarint(2) + _CULPRIT


def cut_text(text: str, limit: int = MAX_HISTORY_TEXT) -> bytes:
    """The UTF-8 of a text, cut to `limit` bytes between two characters."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw
    return raw[:limit].decode("utf-8", "ignore").encode()


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "replace")
    if len(raw) < 0x7F:
        return ONE_BYTE[len(raw) + 1] + raw
    raw = cut_text(text)
    return uvarint(len(raw) + 1) + raw


_WORDS: Final = Words(_text)
"""The names of reasons, outcomes and states."""


def _nullable(text: str | None) -> bytes:
    return b"\0" if text is None else _text(text)
