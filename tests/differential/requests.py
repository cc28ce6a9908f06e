"""Builds the requests of a script for each side, with the member ids issued by that side."""

import itertools
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from tests.differential.script import Client, Step
from tests.oracle.oracle.wire import Reply

SIDES: Final = (0, 1)
"""The reference, and what is compared with it."""

Ids = tuple[str, str]
"""A member id of each side."""

NOBODY: Ids = ("nobody", "nobody")
NONE: Ids = ("", "")


@dataclass
class ClientState:
    """The state of a client; only the ids differ between the sides."""

    number: int
    client: Client
    ids: Ids = NONE
    old_ids: Ids = NONE
    generation: int = -1
    protocol: str | None = None
    phase: str = "out"
    """`out`: it has to join; `joined`: it has to sync; `in`."""
    members: list[tuple[Ids, bytes]] = field(default_factory=list)
    """The members that it leads, with their metadata."""
    metadata: int = 0

    @property
    def instance(self) -> str | None:
        """Its group instance id."""
        return f"i{self.number}" if self.client.static else None

    def lose_ids(self) -> None:
        """It is no member any more, or a new process."""
        self.old_ids = self.ids if any(self.ids) else self.old_ids
        self.ids, self.phase = NONE, "out"

    def join(self, replies: list[Reply], members: list[tuple[Ids, bytes]]) -> None:
        """Store the member id, the generation, and for the leader the members of a response."""
        ids = (replies[0]["member_id"], replies[1]["member_id"])
        if ids != self.ids:
            self.lose_ids()
        self.ids = ids
        if replies[0]["error_code"] != "NONE":
            return
        self.generation = replies[0]["generation_id"]
        self.protocol = replies[0]["protocol_name"]
        self.phase = "joined"
        self.members = members


class Requests:
    """Builds the requests of one run."""

    def __init__(self, groups: dict[str, str], standings: list[ClientState]) -> None:
        """`groups` are the names behind the script's `g` and so on."""
        self._groups = groups
        self._standings = standings
        self._salt = itertools.count(1)

    def of(self, step: Step) -> tuple[str, int, tuple[Reply, Reply]]:
        """API, version and the values for each side."""
        api, values = getattr(self, "_" + step["op"])(step)
        return api, step["v"], (_side(values, 0), _side(values, 1))

    def natural(self, standing: ClientState) -> Step:
        """The usual next request of a client."""
        step: Step = {"who": standing.number, "group": "g", "id": "own", "instance": "own"}
        if standing.phase == "out":
            return step | {"op": "join", "v": 9}
        if standing.phase == "joined":
            return step | {"op": "sync", "v": 5, "generation": "own", "assign": "all"}
        return step | {"op": "heartbeat", "v": 4, "generation": "own"}

    # --- members ---

    def _join(self, step: Step) -> tuple[str, Reply]:
        standing = self._standings[step["who"]]
        client = standing.client
        if "metadata" in step:
            standing.metadata = step["metadata"]
        kind = step.get("protocol_type", client.protocol_type)
        metadata = _metadata(kind, standing)
        return "JoinGroup", {
            **self._identity(step),
            "session_timeout": step.get("session", client.session_ms),
            "rebalance_timeout": step.get("rebalance", client.rebalance_ms),
            "protocol_type": kind,
            "protocols": [
                {"name": name, "metadata": metadata}
                for name in step.get("protocols", client.protocols)
            ],
            "reason": step.get("reason"),
        }

    def _sync(self, step: Step) -> tuple[str, Reply]:
        standing = self._standings[step["who"]]
        return "SyncGroup", {
            **self._identity(step),
            "generation_id": self._generation(step),
            "protocol_type": step.get("protocol_type", standing.client.protocol_type),
            "protocol_name": step.get("protocol", standing.protocol),
            "assignments": [
                {"member_id": ids, "assignment": assignment}
                for ids, assignment in self._assignments(step["assign"], standing)
            ],
        }

    def _assignments(self, kind: str, standing: ClientState) -> list[tuple[Ids, bytes]]:
        salt = b"%d " % next(self._salt)
        everybody = [(ids, salt + metadata[-8:]) for ids, metadata in standing.members]
        match kind:
            case "all":
                return everybody
            case "own":
                return [(standing.ids, salt)]
            case "nobody":
                return [*everybody[:1], (NOBODY, salt)]
            case "twice":
                return [*everybody, *[(ids, b"again " + salt) for ids, _ in everybody]]
            case "empty":
                return [(ids, b"") for ids, _ in everybody]
        return []

    def _heartbeat(self, step: Step) -> tuple[str, Reply]:
        return "Heartbeat", self._identity(step) | {"generation_id": self._generation(step)}

    def _leave(self, step: Step) -> tuple[str, Reply]:
        members = [
            {
                "member_id": self._ids(who["id"], self._standings[who["whose"]]),
                "group_instance_id": self._instance(who["instance"], self._standings[who["whose"]]),
                "reason": who["reason"],
            }
            for who in step["members"]
        ]
        alone = members[0]["member_id"] if members else NONE
        group = self._groups[step["group"]]
        return "LeaveGroup", {"group_id": group, "member_id": alone, "members": members}

    # --- offsets ---

    def _commit(self, step: Step) -> tuple[str, Reply]:
        return "OffsetCommit", {
            **self._identity(step),
            "generation_id_or_member_epoch": self._generation(step),
            "retention_time": step["retention"],
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_metadata": metadata,
                            "committed_leader_epoch": epoch,
                        }
                        for partition, offset, metadata, epoch in partitions
                    ],
                }
                for name, partitions in step["topics"]
            ],
        }

    def _fetch(self, step: Step) -> tuple[str, Reply]:
        standing = self._standings[step["who"]]
        asked = [
            {
                "group_id": self._groups[query["group"]],
                "member_id": None if query["id"] is None else self._ids(query["id"], standing),
                "member_epoch": standing.generation if query["epoch"] == "own" else query["epoch"],
                "topics": _wanted(query["topics"]),
            }
            for query in step["groups"]
        ]
        if step["v"] >= 8:
            return "OffsetFetch", {"groups": asked, "require_stable": step["stable"]}
        query = asked[0] if asked else {"group_id": self._groups["g"], "topics": None}
        topics = query["topics"]
        return "OffsetFetch", {
            "group_id": query["group_id"],
            "topics": [] if topics is None and step["v"] < 2 else topics,
            "require_stable": step["stable"],
        }

    def _offset_delete(self, step: Step) -> tuple[str, Reply]:
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in partitions]}
            for name, partitions in step["topics"]
        ]
        return "OffsetDelete", {"group_id": self._groups[step["group"]], "topics": topics}

    # --- administration ---

    def _describe(self, step: Step) -> tuple[str, Reply]:
        return "DescribeGroups", {
            "groups": [self._groups[group] for group in step["groups"]],
            "include_authorized_operations": step.get("operations", False),
        }

    def _delete(self, step: Step) -> tuple[str, Reply]:
        return "DeleteGroups", {"groups_names": [self._groups[group] for group in step["groups"]]}

    def _list(self, step: Step) -> tuple[str, Reply]:
        return "ListGroups", {"states_filter": step["states"], "types_filter": step["types"]}

    def _find(self, step: Step) -> tuple[str, Reply]:
        keys = [self._groups[group] for group in step["keys"]]
        return "FindCoordinator", {
            "key": keys[0] if keys else "",
            "coordinator_keys": keys,
            "key_type": step["type"],
        }

    # --- fields ---

    def _identity(self, step: Step) -> Reply:
        standing = self._standings[step["who"]]
        return {
            "group_id": self._groups[step["group"]],
            "member_id": self._ids(step["id"], standing),
            "group_instance_id": self._instance(step["instance"], standing),
        }

    def _ids(self, whose: str, standing: ClientState) -> Ids:
        match whose.split():
            case []:
                return NONE
            case ["own"]:
                return standing.ids
            case ["old"]:
                return standing.old_ids
            case ["of", number]:
                return self._standings[int(number)].ids
        return NOBODY

    def _instance(self, whose: str | None, standing: ClientState) -> str | None:
        match (whose or "").split():
            case []:
                return whose
            case ["own"]:
                return standing.instance
            case ["of", number]:
                return f"i{number}"
        return whose

    def _generation(self, step: Step) -> int:
        own = self._standings[step["who"]].generation
        named = {"own": own, "previous": own - 1, "next": own + 1}
        generation = step["generation"]
        return named[generation] if isinstance(generation, str) else int(generation)


def _wanted(topics: Any) -> list[Reply] | None:
    if topics is None:
        return None
    return [{"name": name, "partition_indexes": partitions} for name, partitions in topics]


def _metadata(kind: str, standing: ClientState) -> bytes:
    """Of each client another; a subscription where Kafka reads one."""
    name = b"c%d is %d" % (standing.number, standing.metadata)
    if kind != "consumer":
        return name
    topic = b"differential-%d" % (1 + standing.metadata % 2)
    return (
        struct.pack(">hi", 0, 1)
        + struct.pack(">h", len(topic))
        + topic
        + struct.pack(">i", len(name))
        + name
    )


def _side(value: Any, side: int) -> Any:
    if isinstance(value, dict):
        return {key: _side(item, side) for key, item in value.items()}
    if isinstance(value, list):
        return [_side(item, side) for item in value]
    return value[side] if isinstance(value, tuple) else value
