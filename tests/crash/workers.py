"""Clients that keep a server busy until it dies, and ask it afterwards what it still knows."""

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from tests.crash.ledger import Commit, Offsets, UncertainValue
from tests.support.wire import LOADING, RawConnection

PARTITIONS = 6
TOPIC = "t"
UNCERTAIN = (*LOADING, "NOT_COORDINATOR")
"""Answers that leave open whether something was done."""
WAIT_SECONDS = 20.0


class Refused(Exception):
    """An answer that nothing explains."""


class Worker(Protocol):
    """One client with a group of its own."""

    group: str

    def work(self, connection: RawConnection) -> bool:
        """One request and what belongs to it; whether it was acknowledged. Raises Refused."""
        ...

    def problems(self, connection: RawConnection) -> list[str]:
        """Sentences for values that the server lost or invented."""
        ...


def fetch(connection: RawConnection, group: str) -> dict[int, Commit]:
    """The commits of a group, once its partition is loaded. Raises Refused."""
    deadline = time.monotonic() + WAIT_SECONDS
    wanted = [{"name": TOPIC, "partition_indexes": list(range(PARTITIONS))}]
    while True:
        reply = connection.call("OffsetFetch", 5, group_id=group, topics=wanted)
        if reply["error_code"] not in UNCERTAIN or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    if reply["error_code"] != "NONE":
        raise Refused(f"OffsetFetch of {group}: {reply['error_code']}")
    return {
        answer["partition_index"]: (answer["committed_offset"], answer["metadata"])
        for topic in reply["topics"]
        for answer in topic["partitions"]
        if answer["committed_offset"] >= 0
    }


def accepted(what: str, code: str, also: tuple[str, ...] = ()) -> bool:
    """Whether something was done for certain. Raises Refused."""
    if code in UNCERTAIN:
        return False
    if code not in ("NONE", *also):
        raise Refused(f"{what}: {code}")
    return True


class Committer:
    """Commits for a group without members, deletes offsets and the whole group now and then."""

    def __init__(self, group: str, random: Random) -> None:
        self.group = group
        self.offsets = Offsets(PARTITIONS)
        self._random = random
        self._next = 0

    def work(self, connection: RawConnection) -> bool:
        """See Worker."""
        kinds: list[Callable[[RawConnection], bool]] = [self._commit, self._delete, self._end]
        (kind,) = self._random.choices(kinds, (90, 8, 2))
        return kind(connection)

    def _some(self) -> list[int]:
        return self._random.sample(range(PARTITIONS), self._random.randint(1, 3))

    def _commit(self, connection: RawConnection) -> bool:
        changes = {partition: self.commit() for partition in self._some()}
        return commit(connection, self.group, self.offsets, changes, {})

    def commit(self) -> Commit:
        """One that was never made before."""
        self._next += 1
        return self._next, "m" * self._random.randint(0, 60)

    def _delete(self, connection: RawConnection) -> bool:
        gone: dict[int, Commit | None] = dict.fromkeys(self._some())
        self.offsets.attempt(gone)
        places = [{"partition_index": partition} for partition in gone]
        reply = connection.call(
            "OffsetDelete", 0, group_id=self.group, topics=[{"name": TOPIC, "partitions": places}]
        )
        codes = [
            answer["error_code"] for topic in reply["topics"] for answer in topic["partitions"]
        ]
        done = [
            accepted(f"OffsetDelete of {self.group}", code, ("GROUP_ID_NOT_FOUND",))
            for code in (reply["error_code"], *codes)
        ]
        if all(done):
            self.offsets.acknowledge(gone)
        return all(done)

    def _end(self, connection: RawConnection) -> bool:
        gone: dict[int, Commit | None] = dict.fromkeys(range(PARTITIONS))
        self.offsets.attempt(gone)
        reply = connection.call("DeleteGroups", 1, groups_names=[self.group])
        code = reply["results"][0]["error_code"]
        done = accepted(f"DeleteGroups of {self.group}", code, ("GROUP_ID_NOT_FOUND",))
        if done:
            self.offsets.acknowledge(gone)
        return done

    def problems(self, connection: RawConnection) -> list[str]:
        """See Worker."""
        found = self.offsets.found(fetch(connection, self.group))
        return [f"{self.group} {problem}" for problem in found]


def commit(
    connection: RawConnection,
    group: str,
    offsets: Offsets,
    changes: Mapping[int, Commit],
    member: Mapping[str, Any],
) -> bool:
    """OffsetCommit; whether it was acknowledged. Raises Refused."""
    offsets.attempt(changes)
    places = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        for partition, (offset, metadata) in changes.items()
    ]
    who = {"generation_id_or_member_epoch": -1, **member}
    topics = [{"name": TOPIC, "partitions": places}]
    reply = connection.call("OffsetCommit", 7, group_id=group, topics=topics, **who)
    codes = {answer["error_code"] for topic in reply["topics"] for answer in topic["partitions"]}
    done = [accepted(f"OffsetCommit of {group} by {dict(member)}", code) for code in codes]
    if all(done):
        offsets.acknowledge(changes)
    return all(done)


class Member:
    """The only member of a group: rejoins often, and commits in its generations."""

    def __init__(self, group: str, random: Random) -> None:
        self.group = group
        self.offsets = Offsets(PARTITIONS)
        self.generation: UncertainValue[int] = UncertainValue()
        self._member_id = ""
        self._random = random
        self._next = 0

    def work(self, connection: RawConnection) -> bool:
        """See Worker."""
        if self.generation.acknowledged is None or self._random.random() < 0.2:
            return self._rejoin(connection)
        self._next += 1
        changes = {self._random.randrange(PARTITIONS): (self._next, "by a member")}
        member = {
            "generation_id_or_member_epoch": self.generation.acknowledged,
            "member_id": self._member_id,
        }
        return commit(connection, self.group, self.offsets, changes, member)

    def _rejoin(self, connection: RawConnection) -> bool:
        reply = connection.call(
            "JoinGroup",
            3,
            group_id=self.group,
            session_timeout=300_000,
            rebalance_timeout=300_000,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        )
        if not accepted(f"JoinGroup of {self.group}", reply["error_code"]):
            return False
        self._member_id = reply["member_id"]
        generation = reply["generation_id"]
        self.generation.attempt(generation)
        reply = connection.call(
            "SyncGroup",
            1,
            group_id=self.group,
            generation_id=generation,
            member_id=self._member_id,
            assignments=[{"member_id": self._member_id, "assignment": b"%d" % generation}],
        )
        done = accepted(f"SyncGroup of {self.group}", reply["error_code"])
        if done:
            self.generation.acknowledge(generation)
        return done

    def problems(self, connection: RawConnection) -> list[str]:
        """See Worker; heartbeats are answered well while a group loads, so offsets come first."""
        found = self.offsets.found(fetch(connection, self.group))
        if self._member_id:
            owed, there = str(self.generation), self._durable_generation(connection)
            if not self.generation.found(there):
                found.append(f"generation: {owed}, {there} is there")
            if there is None:
                self._member_id = ""
        return [f"{self.group} {problem}" for problem in found]

    def _durable_generation(self, connection: RawConnection) -> int | None:
        """Of those there may be, the one that a heartbeat finds."""
        for generation in (self.generation.acknowledged, *self.generation.attempted):
            if generation is None:
                continue
            reply = connection.call(
                "Heartbeat",
                1,
                group_id=self.group,
                generation_id=generation,
                member_id=self._member_id,
            )
            if reply["error_code"] == "NONE":
                return generation
        return None
