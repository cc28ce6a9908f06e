"""Starts a server on a damaged directory, in this process, and compares what it answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from coordinator_server.app import App
from coordinator_server.config import load
from coordinator_server.log_tools import inspection
from coordinator_server.log_tools.verification import check_directory
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.storage.base import CorruptLog
from coordinator_server.topics.catalog import CorruptCatalog
from coordinator_server.topics.errors import TopicError
from tests.damage.mutations import Damaged
from tests.damage.templates import GROUPS, TOPICS, Acknowledged
from tests.support.wire import RawConnection

SETTLE_SECONDS = 30.0
UNAVAILABLE = ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")
NO_OFFSET = -1


class Outcome(StrEnum):
    """How a start on damage ended."""

    WHOLE = "all data"
    FAILED = "partitions failed, file named"
    REFUSED = "refused, file named"
    STALE = "STALE ANSWER"
    UNNAMED = "FILE NOT NAMED"
    CRASHED = "STACK TRACE"
    UNVERIFIED = "VERIFY FINDS NOTHING"


GOOD = (Outcome.WHOLE, Outcome.FAILED, Outcome.REFUSED)


@dataclass
class Finding:
    """An outcome, and in words what it was made of."""

    outcome: Outcome
    problems: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def verified(data: Path) -> list[str]:
    """What `log verify --data` finds."""
    wrong = check_directory(data)
    for partition in sorted(data.glob("__consumer_offsets-*")):
        try:
            for segment in sorted(partition.glob("*.log")):
                inspection.verify(segment)
        except (CorruptLog, OSError) as error:
            wrong.append(str(error))
    return wrong


class RecordingApp(App):
    """Keeps the lines of the log."""

    lines: list[str]

    def report(self, event: str, **fields: object) -> None:
        """Keep the line in place of writing it."""
        if "lines" not in self.__dict__:
            self.lines = []
        self.lines.append(f"{event} {fields}")


def config_of(data: Path, settings: Mapping[str, str]) -> Any:
    """The settings of a server without HTTP at any free port."""
    own = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "http.listener": "",
        "log.dirs": str(data),
        "log.cleaner.enable": "false",
        "log.level": "error",
    }
    flags = {**settings, **own}
    return load(settings=[f"{name}={value}" for name, value in flags.items()])[0]


async def look(
    data: Path, settings: Mapping[str, str], acknowledged: Acknowledged, damaged: Damaged
) -> Finding:
    """Start a server, ask it for everything that was acknowledged, and judge."""
    with capture_logs() as lines:
        return await _look(data, settings, acknowledged, damaged, lines)


async def _look(
    data: Path,
    settings: Mapping[str, str],
    acknowledged: Acknowledged,
    damaged: Damaged,
    lines: Sequence[Mapping[str, Any]],
) -> Finding:
    try:
        app = RecordingApp(config_of(data, settings))
    except (ValueError, CorruptCatalog, TopicError, OSError) as error:
        # As the command line says it: exit code 1, and the message.
        said = [f"{error}"]
        is_named = _is_named(damaged, data, said)
        return Finding(Outcome.REFUSED if is_named else Outcome.UNNAMED, [], said)
    try:
        await app.start()
        await _settled(app)
        problems, failed = await asyncio.to_thread(_ask, app.port(), acknowledged)
    finally:
        await app.stop()
    said = [*app.lines, *map(str, lines)]
    if problems:
        return Finding(Outcome.STALE, problems, said)
    if not failed:
        return Finding(Outcome.WHOLE, [], said)
    is_named = _is_named(damaged, data, said)
    return Finding(Outcome.FAILED if is_named else Outcome.UNNAMED, failed, said)


def _is_named(damaged: Damaged, data: Path, said: list[str]) -> bool:
    """Whether the damaged file is named: by its path, or by that of its directory and its name."""
    path = damaged.path
    names = [str(path)]
    if path.parent != data:
        # A missing segment is known by the directory alone.
        names.append(str(path.parent))
    elif not path.name.startswith("."):
        names.append(path.name)
    return any(name in line for name in names for line in said)


async def _settled(app: App) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            states = app.coordinator.partition_states()
            if not states[PartitionState.INITIAL] and not states[PartitionState.LOADING]:
                return
            await asyncio.sleep(0.002)


def _ask(port: int, acknowledged: Acknowledged) -> tuple[list[str], list[str]]:
    """What is answered wrongly, and what with an error."""
    problems: list[str] = []
    failed: list[str] = []
    with RawConnection(f"127.0.0.1:{port}") as connection:
        for group in GROUPS:
            _ask_group(connection, group, acknowledged, problems, failed)
        _ask_topics(connection, acknowledged, problems, failed)
    return problems, failed


def _ask_group(
    connection: RawConnection,
    group: str,
    acknowledged: Acknowledged,
    problems: list[str],
    failed: list[str],
) -> None:
    wanted = [
        {"name": topic, "partition_indexes": list(range(count))} for topic, count in TOPICS.items()
    ]
    reply = connection.call("OffsetFetch", 5, group_id=group, topics=wanted)
    if reply["error_code"] in UNAVAILABLE:
        failed.append(f"{group}: {reply['error_code']}")
        return
    if reply["error_code"] != "NONE":
        problems.append(f"{group}: {reply['error_code']}")
        return
    for each in reply["topics"]:
        for answer in each["partitions"]:
            place = group, each["name"], answer["partition_index"]
            found = answer["committed_offset"], answer["metadata"]
            owed = acknowledged.offsets.get(place)
            if answer["error_code"] != "NONE":
                failed.append(f"{place}: {answer['error_code']}")
            elif owed is None and found[0] != NO_OFFSET:
                problems.append(f"{place}: {found} is there, it was never committed, or deleted")
            elif owed is not None and found != owed:
                problems.append(f"{place}: {found} is there, {owed} was acknowledged")


def _ask_topics(
    connection: RawConnection,
    acknowledged: Acknowledged,
    problems: list[str],
    failed: list[str],
) -> None:
    wanted = [
        {
            "name": topic,
            "partitions": [{"partition_index": index, "timestamp": -1} for index in range(count)],
        }
        for topic, count in TOPICS.items()
    ]
    reply = connection.call("ListOffsets", 1, replica_id=-1, topics=wanted)
    for each in reply["topics"]:
        for answer in each["partitions"]:
            place = each["name"], answer["partition_index"]
            owed = acknowledged.records.get(place, 0)
            if answer["error_code"] != "NONE":
                failed.append(f"{place}: {answer['error_code']}")
            elif answer["offset"] < owed:
                problems.append(f"{place} ends at {answer['offset']}, {owed} were acknowledged")
