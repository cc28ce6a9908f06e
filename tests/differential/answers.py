"""Answers as they are compared: symbols for what differs by nature, and what is meant to differ.

Why each deliberate difference is one is in docs/decisions.md.
"""

import json
import re
from enum import Enum, auto
from typing import Any

from tests.oracle.oracle.wire import Reply

_GENERATED = re.compile(r"([^\s\"/']*?)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACES = {"node_id", "host", "port", "client_host"}
_SUBSCRIBED = "GROUP_SUBSCRIBED_TO_TOPIC"
_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"


class Names:
    """One side's symbols: `c0~2` is the second member id that was made of `c0`."""

    def __init__(self, groups: dict[str, str]) -> None:
        """`groups` are symbols and the names behind them."""
        self._groups = sorted(
            ((name, symbol) for symbol, name in groups.items() if name),
            key=lambda pair: -len(pair[0]),
        )
        self._symbols: dict[str, str] = {}

    @property
    def member_ids(self) -> list[str]:
        """All that have been handed out."""
        return list(self._symbols)

    def symbol(self, member_id: str) -> str:
        """Of a member id that has been in a text."""
        return self._symbols[member_id]

    def text(self, values: Reply) -> str:
        """A request or an answer; ids in it that are new get their symbols."""
        known = {name for name, _ in self._groups}
        if "group_type" in str(values) or {"groups", "error_code"} <= values.keys():
            ours = [group for group in values["groups"] if group["group_id"] in known]
            values = values | {"groups": ours}
        plain = _text(_sorted(_without_places(values)))
        for match in _GENERATED.finditer(plain):
            self._name(match[0], match[1])
        named = _GENERATED.sub(lambda match: self._symbols[match[0]], plain)
        for name, symbol in self._groups:
            named = named.replace(_text(name)[1:-1], f"<{symbol}>")
        return _text(_sorted(json.loads(named)))

    def _name(self, member_id: str, stem: str) -> None:
        if member_id not in self._symbols:
            alike = sum(symbol.startswith(f"{stem}~") for symbol in self._symbols.values())
            self._symbols[member_id] = f"{stem}~{alike + 1}"


def _text(value: Any) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False)


def _without_places(value: Any) -> Any:
    """An answer without what belongs to its machine, and how busy that is."""
    if isinstance(value, dict):
        return {
            key: "<place>" if key in _PLACES and item not in (-1, "") else _without_places(item)
            for key, item in value.items()
            if key != "throttle_time"
        }
    return [_without_places(item) for item in value] if isinstance(value, list) else value


def _sorted(value: Any) -> Any:
    """With every array in an order that does not depend on generated ids."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [_sorted(item) for item in value]
        return sorted(items, key=lambda item: _GENERATED.sub(r"\1", _text(item)))
    return value


class Meaning(Enum):
    """The meaning of a difference between two answers."""

    DEVIATION = auto()
    DELIBERATE = auto()
    PARTED = auto()
    """Deliberate, and what comes behind cannot be compared."""
    CHANCE = auto()
    """Kafka takes it from the order of random ids."""


def leaves_a_trace(api: str, reply: Reply) -> bool:
    """Whether an answer tells of a group that Kafka has in memory alone.

    That is one which a commit has made that took nothing, as all metadata was too long.
    """
    if api != "OffsetCommit":
        return False
    found = {
        each["error_code"] for topic in reply.get("topics", ()) for each in topic["partitions"]
    }
    return _TOO_LARGE in found and "NONE" not in found


def meaning(api: str, replies: list[Reply], texts: list[str]) -> Meaning:
    """Of answers that differ."""
    if api == "OffsetDelete" and len({_whatever_is_subscribed(text) for text in texts}) == 1:
        # Kafka asks what the last generation has subscribed to, we ask the members.
        return Meaning.PARTED
    if api == "JoinGroup":
        reference, compared = (reply.get("error_code") for reply in replies)
        if reference == "UNKNOWN_SERVER_ERROR" and compared in (
            "UNKNOWN_MEMBER_ID",
            "FENCED_INSTANCE_ID",
        ):
            # A member id that was handed out, with a group instance id.
            return Meaning.DELIBERATE
        if reference == compared == "NONE" and _only_the_leader_differs(texts):
            return Meaning.CHANCE
    return Meaning.DEVIATION


def _whatever_is_subscribed(text: str) -> str:
    return text.replace(_SUBSCRIBED, "NONE")


def _only_the_leader_differs(texts: list[str]) -> bool:
    """Only the leader differs, and with it the member list."""
    answers = [json.loads(text) for text in texts]
    leaders = [(answer.pop("leader"), answer.pop("members"))[0] for answer in answers]
    return bool(answers[0] == answers[1] and leaders[0] != leaders[1])


def is_never_answered(api: str, error: str, *, superseded: bool) -> bool:
    """Whether this error is ours alone: Kafka leaves the parked request without an answer.

    That is one another has superseded, or the SyncGroup of a member that is gone.
    """
    if error == "REBALANCE_IN_PROGRESS":
        return superseded
    return api == "SyncGroup" and error == "UNKNOWN_MEMBER_ID"
