"""The script of a story: what is done, and which rebalance it must bring about."""

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from tests.support.client_processes import ClientGroup, ClientProcess, python_client
from tests.support.server import ServerProcess
from tests.support.wire import create_topic

PATIENCE_S = 40.0
HEARTBEAT_MS = 100
LONG_MS = 60_000
"""A session that does not end within a story."""

_METRIC = re.compile(r'kafka_group_coordinator_rebalances_total\{reason="(\w+)"\} (\S+)')


@dataclass(frozen=True, slots=True)
class Row:
    """What was done, and what must be said of it."""

    group: str
    done: str
    reason: str
    """Empty: no rebalance."""
    client: str = ""
    instance: str = ""
    outcome: str = "completed"
    waited_for: str = ""
    """A client the rebalance waited for, if the script makes it wait."""
    evicted: str = ""

    @property
    def said(self) -> str:
        """Reason and culprit in the words that every surface's are brought into."""
        return said(self.reason, self.client, self.instance) if self.reason else NOTHING


NOTHING = "no rebalance"


def said(reason: str, client: str, instance: str | None) -> str:
    """Reason and culprit in one form."""
    return f"{reason} by {client}{f' [{instance}]' if instance else ''}"


@dataclass
class Story:
    """A server, what the script did to its groups, and what the metric said each time."""

    server: ServerProcess
    rows: list[Row] = field(default_factory=list)
    metric: list[str] = field(default_factory=list)
    """The reasons whose counters went up during each row."""
    _counted: Counter[str] = field(default_factory=Counter)

    def wait_for_http(self) -> None:
        """The server serves Kafka before HTTP; raises OSError if the latter does not come."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.server.get("/readyz")
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def get(self, path: str) -> Any:
        """JSON of the server's HTTP API."""
        return json.loads(self.server.get(path))

    def groups(self) -> list[str]:
        """The groups of the script, in its order."""
        return list(dict.fromkeys(row.group for row in self.rows))

    def timeline(self, group: str) -> list[dict[str, Any]]:
        """The finished rebalances of a group, the oldest first.

        None while one is under way, or while there is no such group.
        """
        try:
            story = self.get(f"/api/groups/{quote(group)}/timeline?limit=1000")
        except HTTPError:
            return []
        return [] if story["current"] else story["rebalances"][::-1]

    def note(self, row: Row) -> None:
        """The row has happened: what has the metric counted since the one before?"""
        counted = Counter[str]()
        for reason, count in _METRIC.findall(self.server.get("/metrics")):
            counted[reason] = int(float(count))
        grown = counted - self._counted
        self._counted = counted
        self.rows.append(row)
        self.metric.append(
            ", ".join(
                reason if more == 1 else f"{more} x {reason}" for reason, more in grown.items()
            )
            or NOTHING
        )


class Scene:
    """What happens to one group."""

    def __init__(self, story: Story, client_group: ClientGroup) -> None:
        """The clients of the room are those of the scene."""
        self.story = story
        self.client_group = client_group
        self._rebalances = 0

    def aiokafka(
        self, name: str, *more: str, session_ms: int = LONG_MS, rebalance_ms: int = LONG_MS
    ) -> ClientProcess:
        """Start a member by aiokafka."""
        times = ("--session-ms", str(session_ms), "--rebalance-ms", str(rebalance_ms))
        return self._start("aiokafka_member", name, *times, *more)

    def librdkafka(self, name: str, *more: str, session_ms: int = LONG_MS) -> ClientProcess:
        """Start a member by librdkafka."""
        return self._start("confluent_member", name, "--session-ms", str(session_ms), *more)

    def _start(self, program: str, name: str, *more: str) -> ClientProcess:
        fast = ("--heartbeat-ms", str(HEARTBEAT_MS))
        return self.client_group.start(
            name, python_client(program, self.client_group, name, *fast, *more)
        )

    def topic_beside(self) -> str:
        """Another topic, made here."""
        name = f"{self.client_group.topic}-too"
        create_topic(self.client_group.bootstrap, name, 2)
        return name

    def expect(self, done: str, reason: str, client: str, **rest: str) -> None:
        """Wait until one more rebalance has ended; whether it is that one, all surfaces say."""
        self._rebalances += 1
        self.until(
            lambda: len(self.story.timeline(self.client_group.group)) >= self._rebalances, done
        )
        self.story.note(Row(self.client_group.group, done, reason, client, **rest))

    def expect_nothing(self, done: str, client: str, instance: str) -> None:
        """What was done is over, and it was no rebalance."""
        self.story.note(Row(self.client_group.group, done, "", client, instance))

    def until_waiting_for(self, client: str) -> None:
        """Wait until the group waits for a client and for nobody else."""
        path = f"/api/groups/{quote(self.client_group.group)}/waiting"

        def reached() -> bool:
            waiting = self.story.get(path)["waiting"]
            return [member["client_id"] for member in waiting] == [client]

        self.until(reached, f"the group waits for {client}")

    def until(self, reached: Any, what: str) -> None:
        """Ask again and again, for a while; raises AssertionError that tells what is known."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > deadline:
                known = json.dumps(self.story.timeline(self.client_group.group), indent=1)[-3000:]
                raise AssertionError(f"not reached: {what}\n{known}\n{self.client_group.report()}")
            time.sleep(0.02)
