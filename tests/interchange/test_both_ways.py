"""What a broker wrote serves us, and what we wrote serves a broker."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator_server.cli.main import app
from tests.interchange.conftest import CLASSIC, TRANSACTIONAL, Written
from tests.support.kafka import Kafka, kafka_tool
from tests.support.kafka_exchange import answers, asked, commit, committed_offset, refusals
from tests.support.server import ServerProcess

TOPIC = "__consumer_offsets"
NEWEST_KIND = 2
"""The record type of a classic group; above it are those of later protocols."""
NAMED_KINDS = {"rebalance_history": 32766}
RECORD = re.compile(
    r"^\| offset: (\d+) CreateTime: (\d+) .*? headerKeys: \[(.*?)\](?: key: (.*?))?"
    r"(?: payload: (.*))?$"
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def imported(kafkas: Written, into: Path, *options: str) -> Result:
    result = run("import", kafkas.data, "--into", into, *options)
    assert result.exit_code == 0, result.output
    return result


def test_a_brokers_log_gives_the_same_answers_here(kafkas: Written, tmp_path: Path) -> None:
    said = imported(kafkas, tmp_path / "server" / "data").stdout
    assert "50 partitions" in said
    assert "1 transactions were open" in said
    assert "records of type 3 are kept" in said
    with ServerProcess(tmp_path / "server") as server:
        here = answers(server.bootstrap, [*CLASSIC, *TRANSACTIONAL])
        assert not server.bugs(), server.bugs()[:5]
    assert here == kafkas.answers
    assert {group: committed_offset(here[group]) for group in TRANSACTIONAL} == {
        "committed": 41,
        "aborted": 40,
        "pending": 43,
    }
    assert committed_offset(here["packed"]) == 7
    assert here["members"][1]["group_state"] == "Stable"


def test_a_pending_transaction_can_be_aborted_on_the_way(kafkas: Written, tmp_path: Path) -> None:
    data = tmp_path / "server" / "data"
    assert "ended as aborted" in imported(kafkas, data, "--abort-open-transactions").stdout
    assert run("verify", "--data", data).exit_code == 0
    with ServerProcess(tmp_path / "server") as server:
        (group,) = asked(
            server.bootstrap,
            "OffsetFetch",
            8,
            require_stable=True,
            groups=[{"group_id": "pending", "topics": None}],
        )["groups"]
    (partition,) = group["topics"][0]["partitions"]
    assert (partition["error_code"], partition["committed_offset"]) == ("NONE", 43)


def test_our_log_gives_the_same_answers_from_a_broker(ours: Written, empty_broker: Kafka) -> None:
    result = run("export", ours.data, "--into", empty_broker.data)
    assert result.exit_code == 0, result.output
    empty_broker.start()
    try:
        there = answers(empty_broker.bootstrap, ours.answers)
        refused = refusals(empty_broker.bootstrap)
        commit(empty_broker.bootstrap, "plain-0", 5000)
    finally:
        empty_broker.stop()
    assert there == ours.answers
    assert refused == ours.refusals
    again = run("export", ours.data, "--into", empty_broker.data)
    assert again.exit_code == 2
    assert "expected an empty partition" in again.output


@pytest.mark.parametrize("whose", ["ours", "kafkas"])
def test_our_dump_and_kafkas_agree_on_every_record(
    whose: str, request: pytest.FixtureRequest
) -> None:
    written: Written = request.getfixturevalue(whose)
    files = sorted(path for path in written.data.glob(f"{TOPIC}-*/*.log") if path.stat().st_size)
    assert files
    theirs = kafka_dump(files)
    for file in files:
        result = run("dump", file)
        assert result.exit_code == 0, result.output
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        mine = [summary(line) for line in lines if "marker" not in line]
        assert mine == theirs[str(file)], file


def kafka_dump(files: list[Path]) -> dict[str, list[Any]]:
    """Summaries of the records in each file, as Kafka's tool prints them."""
    said = kafka_tool(
        "kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--deep-iteration", "--files", ",".join(map(str, files))),
    ).stdout
    found: dict[str, list[Any]] = {}
    for line in said.splitlines():
        if line.startswith("Dumping "):
            found[line.removeprefix("Dumping ")] = current = []
        elif (match := RECORD.match(line)) and "endTxnMarker" not in line:
            offset, timestamp, headers, key, payload = match.groups()
            current.append((int(offset), int(timestamp), headers, *kafka_content(key, payload)))
    return found


def kafka_content(text: str, payload: str | None) -> tuple[Any, Any]:
    if unknown := re.match(r"Unknown record type (\d+) ", text):
        return ("type", int(unknown[1])), None
    key = json.loads(text)
    place, kind = key["data"], int(key["type"])
    if kind > NEWEST_KIND:
        return ("type", kind), None
    value = json.loads(payload)["data"] if payload and payload.startswith("{") else None
    if "topic" in place:
        content = value and (value["offset"], value["leaderEpoch"], value["metadata"])
        return (place["group"], place["topic"], place["partition"]), content
    content = value and (
        value["generation"],
        value["protocol"],
        [(member["memberId"], member["groupInstanceId"]) for member in value["members"]],
    )
    return (place["group"],), content


def summary(line: dict[str, Any]) -> tuple[Any, ...]:
    """The same of one of our lines."""
    key, value = line["key"], line["value"]
    place: tuple[Any, ...] = ("type", NAMED_KINDS.get(key["type"], key["type"]))
    content: Any = None
    if "group" in key and key["type"] != "rebalance_history":
        place = (key["group"],)
    if key["type"] == "offset_commit":
        place = (key["group"], key["topic"], key["partition"])
        content = value and (value["offset"], value["leader_epoch"], value["metadata"])
    elif key["type"] == "group_metadata" and value:
        members = [(each["member_id"], each["group_instance_id"]) for each in value["members"]]
        content = (value["generation"], value["protocol"], members)
    headers = ",".join(line["headers"])
    return line["offset"], line["timestamp"], headers, place, content
