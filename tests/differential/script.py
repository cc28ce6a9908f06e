"""Random scripts: what several clients ask of one group, from a seed.

A script says nothing of what is answered. Its steps name ids and generations by whose they are
(`own`, `stale`, `of 2`), so that one script can be played against any coordinator.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

Step = dict[str, Any]

TOPICS = {"differential-1": 3, "differential-2": 1}
"""That exist, with their partitions."""

MISSING_TOPIC = "differential-missing"
LONGEST_METADATA = 64
"""The servers' `offset.metadata.max.bytes`."""

LONG_MS = 60_000
SHORT_SESSION_MS, SHORT_REBALANCE_MS = 2_000, 1_500
"""Of clients for which time may run out; both begin at once, and must not end at once."""
WAIT_SECONDS = 2.6

VERSIONS = {
    "JoinGroup": (0, 9),
    "SyncGroup": (0, 5),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "OffsetCommit": (2, 9),
    "OffsetFetch": (1, 9),
    "OffsetDelete": (0, 0),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "DeleteGroups": (0, 2),
    "FindCoordinator": (0, 6),
}


class Client(NamedTuple):
    """A client of the script."""

    static: bool
    protocol_type: str
    protocols: tuple[str, ...]
    session_ms: int
    rebalance_ms: int


class Script(NamedTuple):
    """The clients and steps of one seed."""

    seed: int
    suffix: str
    """Of the group's name."""
    clients: tuple[Client, ...]
    steps: tuple[Step, ...]


def script_of(seed: int) -> Script:
    """The script of a seed."""
    return _ScriptGenerator(seed).script()


class _ScriptGenerator:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = random.Random(seed)
        self._timed = self._rng.random() < 0.12
        self._latest = self._rng.random() < 0.3
        self._clients: tuple[Client, ...] = ()

    def script(self) -> Script:
        rng = self._rng
        protocol_type = rng.choice(("consumer", "consumer", "connect"))
        statics = rng.choice((0.0, 0.3, 0.7))
        self._clients = tuple(
            self._client(protocol_type, statics) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))
        )
        steps: list[Step] = []
        if rng.random() < 0.75:
            steps.append({"op": "follow", "rounds": rng.randint(1, 4)})
        steps += [self._step() for _ in range(rng.randint(6, 30))]
        if rng.random() < 0.5:
            steps.append({"op": "follow", "rounds": 3})
        steps += [{"op": "describe", "v": 6, "groups": ["g", "g2"]}, self._fetch_all()]
        suffix = rng.choice(("", "", "", " ü/.\\", "\u2028\U0001f600", "%s", "a" * 200))
        return Script(self._seed, suffix, self._clients, tuple(steps))

    def _client(self, protocol_type: str, statics: float) -> Client:
        rng = self._rng
        names = ["range", "roundrobin", "sticky", "Ünï"]
        chosen = rng.sample(names, rng.randint(1, 4))
        if rng.random() < 0.9 and "range" not in chosen:
            chosen.insert(rng.randint(0, len(chosen)), "range")
        static = rng.random() < statics
        # Whoever restarts a static member asks for the session it has: see docs/decisions.md.
        short = self._timed and (static or rng.random() < 0.6)
        return Client(
            static=static,
            protocol_type=protocol_type if rng.random() < 0.97 else "other",
            protocols=tuple(chosen),
            session_ms=SHORT_SESSION_MS if short and (static or rng.random() < 0.6) else LONG_MS,
            rebalance_ms=SHORT_REBALANCE_MS if short else LONG_MS,
        )

    def _step(self) -> Step:
        made = {
            "natural": (30, self._natural),
            "follow": (12, lambda: {"op": "follow", "rounds": self._rng.randint(1, 3)}),
            "join": (9, self._join),
            "sync": (7, self._sync),
            "heartbeat": (5, self._heartbeat),
            "leave": (7, self._leave),
            "commit": (8, self._commit),
            "fetch": (5, self._fetch),
            "offset_delete": (3, self._offset_delete),
            "describe": (3, self._describe),
            "list": (1, self._list),
            "delete": (3, self._delete),
            "find": (1, self._find),
            "burst": (5, self._burst),
            "drop": (2, lambda: {"op": "drop", "who": self._who()}),
            "wait": (6 if self._timed else 0, lambda: {"op": "wait", "seconds": WAIT_SECONDS}),
        }
        weights = [weight for weight, _ in made.values()]
        ((_, make),) = self._rng.choices(list(made.values()), weights)
        return make()

    # --- parts of requests ---

    def _who(self) -> int:
        return self._rng.randrange(len(self._clients))

    def _version(self, api: str, at_least: int = 0) -> int:
        lowest, highest = VERSIONS[api]
        if self._latest:
            return highest
        return self._rng.randint(max(lowest, at_least), highest)

    def _mostly(self, usual: Any, *others: Any, odds: float = 0.75) -> Any:
        return usual if self._rng.random() < odds else self._rng.choice(others)

    def _id(self, odds: float = 0.75) -> str:
        chosen: str = self._mostly("own", "", "nobody", "old", f"of {self._who()}", odds=odds)
        return chosen

    def _instance(self, odds: float = 0.85) -> str | None:
        chosen: str | None = self._mostly("own", None, "nobody", f"of {self._who()}", odds=odds)
        return chosen

    def _generation(self, odds: float = 0.8) -> int | str:
        chosen: int | str = self._mostly(
            "own", -1, "previous", "next", 0, 2**31 - 1, -(2**31), odds=odds
        )
        return chosen

    def _group(self) -> str:
        chosen: str = self._mostly("g", "g2", "", odds=0.97)
        return chosen

    # --- steps of members ---

    def _natural(self) -> Step:
        return {"op": "natural", "who": self._who()}

    def _join(self) -> Step:
        rng, who = self._rng, self._who()
        step: Step = {
            "op": "join",
            "who": who,
            "v": self._version("JoinGroup", 5 if self._clients[who].static else 0),
            "group": self._group(),
            "id": self._mostly("own", "", "", "nobody", "old", f"of {self._who()}", odds=0.6),
            "instance": self._instance(),
        }
        if rng.random() < 0.35:
            step["metadata"] = rng.randint(1, 3)
        if rng.random() < 0.15:
            names = ["range", "roundrobin", "sticky", "alien", ""]
            step["protocols"] = rng.sample(names, rng.randint(0, 3))
        if rng.random() < 0.06:
            step["protocol_type"] = rng.choice(("", "connect", "consumer"))
        if rng.random() < 0.05:
            step["session"] = rng.choice((-1, 0, 99, 1_800_001))
        if rng.random() < 0.05:
            step["rebalance"] = rng.choice((-1, -(2**31), 2**31 - 1, 5_000))
        if rng.random() < 0.2:
            step["reason"] = rng.choice(("", "because", "r" * 300))
        return step

    def _sync(self) -> Step:
        step: Step = {
            "op": "sync",
            "who": self._who(),
            "v": self._version("SyncGroup"),
            "group": self._group(),
            "id": self._id(),
            "instance": self._instance(),
            "generation": self._generation(),
            "assign": self._mostly("all", "none", "own", "nobody", "twice", "empty", odds=0.7),
        }
        if self._rng.random() < 0.15:
            step["protocol_type"] = self._rng.choice((None, "", "consumer", "other"))
        if self._rng.random() < 0.15:
            step["protocol"] = self._rng.choice((None, "", "range", "alien"))
        return step

    def _heartbeat(self) -> Step:
        return {
            "op": "heartbeat",
            "who": self._who(),
            "v": self._version("Heartbeat"),
            "group": self._group(),
            "id": self._id(),
            "instance": self._instance(),
            "generation": self._generation(),
        }

    def _leave(self) -> Step:
        rng = self._rng
        members = [
            {
                "whose": self._who(),
                "id": self._mostly("own", "", "nobody", "old", f"of {self._who()}", odds=0.7),
                "instance": self._mostly("own", None, None, "nobody", f"of {self._who()}"),
                "reason": rng.choice((None, "", "going", "x" * 300)),
            }
            for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 0)))
        ]
        step: Step = {"op": "leave", "who": self._who(), "v": self._version("LeaveGroup")}
        return step | {"group": self._group(), "members": members}

    def _burst(self) -> Step:
        who = self._who()
        makers = (self._join, self._sync, self._heartbeat, self._leave, self._commit, self._fetch)
        steps = [self._rng.choice(makers)() | {"who": who} for _ in range(self._rng.randint(2, 4))]
        if self._rng.random() < 0.5:
            steps.insert(0, {"op": "natural", "who": who})
        return {"op": "burst", "who": who, "steps": steps}

    # --- offsets ---

    def _topics(self) -> list[tuple[str, list[int]]]:
        rng = self._rng
        return [
            (
                self._mostly("differential-1", "differential-2", MISSING_TOPIC, "", odds=0.6),
                [
                    rng.choice((0, 0, 0, 1, 1, 2, 3, -1, 2**31 - 1))
                    for _ in range(rng.choice((1, 1, 2, 3, 0)))
                ],
            )
            for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 0)))
        ]

    def _commit(self) -> Step:
        rng = self._rng
        simple = rng.random() < 0.25
        texts = ("", "", None, "m", "ü" * LONGEST_METADATA, "m" * (LONGEST_METADATA + 1))
        offsets = (rng.randint(0, 99), rng.randint(0, 99), -1, -2, 0, 2**63 - 1, -(2**63))
        return {
            "op": "commit",
            "who": self._who(),
            "v": self._version("OffsetCommit"),
            "group": self._group(),
            "id": "" if simple else self._id(),
            "instance": None if simple else self._instance(),
            "generation": -1 if simple else self._generation(),
            "retention": self._mostly(-1, 0, 3_600_000),
            "topics": [
                (
                    name,
                    [
                        (partition, rng.choice(offsets), rng.choice(texts), rng.choice((-1, 5)))
                        for partition in partitions
                    ],
                )
                for name, partitions in self._topics()
            ],
        }

    def _fetch(self) -> Step:
        return {
            "op": "fetch",
            "who": self._who(),
            "v": self._version("OffsetFetch"),
            "groups": [
                {
                    "group": self._group(),
                    "topics": self._mostly(self._topics(), None, odds=0.5),
                    "id": self._mostly(None, "own", "nobody", "", odds=0.7),
                    "epoch": self._mostly(-1, 0, "own", 7, odds=0.6),
                }
                for _ in range(self._rng.choice((1, 1, 1, 2, 0)))
            ],
            "stable": self._rng.random() < 0.4,
        }

    def _fetch_all(self) -> Step:
        everything = {"group": "g", "topics": None, "id": None, "epoch": -1}
        return {"op": "fetch", "who": 0, "v": 8, "groups": [everything], "stable": False}

    def _offset_delete(self) -> Step:
        step: Step = {"op": "offset_delete", "who": self._who(), "v": 0}
        return step | {"group": self._group(), "topics": self._topics()}

    # --- what an administrator asks ---

    def _groups(self) -> list[str]:
        return [
            self._mostly("g", "g2", "", odds=0.8) for _ in range(self._rng.choice((1, 1, 2, 0)))
        ]

    def _describe(self) -> Step:
        step: Step = {"op": "describe", "v": self._version("DescribeGroups")}
        return step | {"groups": self._groups(), "operations": self._rng.random() < 0.3}

    def _delete(self) -> Step:
        return {"op": "delete", "v": self._version("DeleteGroups"), "groups": self._groups()}

    def _list(self) -> Step:
        states = ("Stable", "stable", "EMPTY", "PreparingRebalance", "CompletingRebalance", "Dead")
        more = (*states, "Assigning", "Reconciling", "NotReady", "nonsense", "")
        types = ("classic", "Classic", "consumer", "share", "streams", "nonsense", "")
        return {
            "op": "list",
            "v": self._version("ListGroups"),
            "states": self._some(more),
            "types": self._some(types),
        }

    def _some(self, names: Sequence[str]) -> list[str]:
        return self._rng.sample(names, self._rng.choice((0, 0, 1, 1, 2, 4)))

    def _find(self) -> Step:
        return {
            "op": "find",
            "v": self._version("FindCoordinator"),
            "type": self._mostly(0, 1, -1, 3, 127, odds=0.7),
            "keys": self._groups(),
        }
