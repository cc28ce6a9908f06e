"""Names members in text for people: by client, instance and host, and by id where needed."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

Form = Mapping[str, Any]

_GENERATED_ID = re.compile(
    r"(?P<name>.*)-(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.DOTALL
)
"""A member id as coordinators generate it: the client id or instance id, and a UUID."""
_UUID_LENGTHS = (4, 8)
"""Lengths to which names shorten the UUID."""

Party = tuple[str, str | None, str]
"""Client id, instance id and host, which a client keeps when it returns as a new member."""


def member_name(culprit: Form) -> str:
    """A member's id and host, and its client id if the member id does not begin with it."""
    if not culprit["member_id"]:
        return "an operator"
    name, client = str(culprit["member_id"]), culprit["client_id"]
    if instance := culprit["group_instance_id"]:
        name += f" [{instance}]"
    if client and not name.startswith(client):
        name += f" of client {client}"
    return f"{name} at {culprit['client_host'] or '-'}"


def party_of(member: Form) -> Party:
    """The attributes that a client keeps when it returns as a new member."""
    return member["client_id"], member["group_instance_id"], member["client_host"]


class MemberNames:
    """Names the members of one answer, with an id where client, instance and host are ambiguous."""

    def __init__(self, answer: Form) -> None:
        """Collect the ids of all members in the answer."""
        self._ids: defaultdict[Party, set[str]] = defaultdict(set)
        for member in _members(answer):
            self._ids[party_of(member)].add(member["member_id"])
        self._lengths: dict[Party, int | None] = {}

    def __call__(self, member: Form) -> str:
        """The shortest name that is unique in the answer."""
        client, instance, _ = party = party_of(member)
        member_id = str(member["member_id"])
        if not member_id:
            return "an operator"
        if not client:
            name = self._short(member_id, party)
        elif len(self._ids[party]) > 1 and not instance:
            short = self._short(member_id, party)
            name = short if short.startswith(client) else f"{short} of client {client}"
        else:
            name = client
        return f"{name}{f' [{instance}]' if instance else ''} at {self.host(member)}"

    def party(self, member: Form) -> str:
        """The name of a client that may have been several members, one after the other."""
        if not member["client_id"]:
            return self(member)
        instance = member["group_instance_id"]
        name = f"client {member['client_id']}{f' [{instance}]' if instance else ''}"
        return f"{name} at {self.host(member)}"

    @staticmethod
    def host(member: Form) -> str:
        """A member's address without the slash that Java puts before it."""
        return str(member["client_host"]).removeprefix("/") or "-"

    def _short(self, member_id: str, party: Party) -> str:
        parts = _GENERATED_ID.fullmatch(member_id)
        if party not in self._lengths:
            self._lengths[party] = _unique_length(self._ids[party])
        length = self._lengths[party]
        if parts is None or length is None:
            return member_id
        return f"{parts['name']}-{parts['uuid'][:length]}\N{HORIZONTAL ELLIPSIS}"


def _unique_length(member_ids: set[str]) -> int | None:
    """The shortest prefix of the UUIDs that keeps these ids distinct; None if only all of it."""
    found = [parts for each in member_ids if (parts := _GENERATED_ID.fullmatch(each))]
    for length in _UUID_LENGTHS:
        if len({(each["name"], each["uuid"][:length]) for each in found}) == len(found):
            return length
    return None


def _members(answer: Form) -> Iterator[Form]:
    yield from answer.get("members", ())
    yield from answer.get("waiting_for", ())
    yield from (refusal["member"] for refusal in answer["refusals"])
    current = answer.get("current")
    for event in (*([current] if current else ()), *answer["rebalances"]):
        yield event["culprit"]
        for entry in event.get("rounds", ()):
            yield entry["culprit"]
        for key in ("joined", "left", "evicted", "waited_for"):
            yield from event.get(key, ())
