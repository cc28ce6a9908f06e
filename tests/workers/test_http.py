"""One HTTP server for all workers."""

import json
import os
import signal
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest

from tests.support.wire import RawConnection
from tests.support.workers import WorkersProcess, commit


def get(server: WorkersProcess, path: str) -> Any:
    return json.loads(server.get(path))


def joined(server: WorkersProcess, group: str) -> RawConnection:
    """A member whose join is answered; the group completes its rebalance."""
    connection = RawConnection(server.coordinator_of(group))
    reply = connection.call(
        "JoinGroup",
        2,
        group_id=group,
        session_timeout=30_000,
        rebalance_timeout=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
    )
    assert reply["error_code"] == "NONE", reply
    member = {"member_id": reply["member_id"], "assignment": b""}
    synced = connection.call(
        "SyncGroup",
        2,
        group_id=group,
        generation_id=reply["generation_id"],
        member_id=reply["member_id"],
        assignments=[member],
    )
    assert synced["error_code"] == "NONE", synced
    return connection


def test_the_groups_of_all_workers_are_listed_in_pages(three: WorkersProcess) -> None:
    groups = sorted(three.group_of(index % 3, "listed") for index in range(6))
    for group in groups:
        with RawConnection(three.coordinator_of(group)) as worker:
            assert commit(worker, group, "t") == "NONE"
    everything = [each["group"] for each in get(three, "/api/groups")["groups"]]
    assert everything == sorted(everything)
    assert set(groups) <= set(everything)
    paged, after = [], ""
    while True:
        page = get(three, f"/api/groups?limit=2{after}")
        paged += [each["group"] for each in page["groups"]]
        assert len(page["groups"]) <= 2
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert paged == everything


def test_a_worker_that_hangs_keeps_nobody_from_what_the_others_say(three: WorkersProcess) -> None:
    hung = three.pid_of(1)
    os.kill(hung, signal.SIGSTOP)
    try:
        base = f"http://127.0.0.1:{three.http_port}"
        with urllib.request.urlopen(f"{base}/metrics", timeout=9) as answer:
            assert "kafka_group_coordinator_" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/readyz", timeout=9)
        assert refused.value.code == 503
        assert json.loads(refused.value.read())["workers"] == ["ready", "starting", "ready"]
    finally:
        os.kill(hung, signal.SIGCONT)
    three.await_ready()


def test_why_a_group_rebalanced_is_told_by_its_worker(three: WorkersProcess) -> None:
    for owner in range(3):
        group = three.group_of(owner, "why/with slash")
        with joined(three, group):
            path = f"/api/groups/{urllib.parse.quote(group, safe='')}"
            (rebalance,) = get(three, f"{path}/why")["rebalances"]
            assert rebalance["reason"] == "member_joined"
            assert get(three, path)["state"] == "Stable"


def test_what_there_is_not_and_what_is_not_allowed_is_said_as_by_one_server(
    three: WorkersProcess,
) -> None:
    base = f"http://127.0.0.1:{three.http_port}"
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(f"{base}/api/groups/nobody")
    assert missing.value.code == 404
    assert json.loads(missing.value.read()) == {"error": "no group 'nobody' here"}
    kick = urllib.request.Request(f"{base}/api/groups/nobody/rebalance", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(kick)
    assert refused.value.code == 403
    refused.value.close()
    with pytest.raises(urllib.error.HTTPError) as wrong:
        urllib.request.urlopen(f"{base}/api/groups?limit=none")
    assert wrong.value.code == 400
    wrong.value.close()


def test_readiness_and_metrics_count_all_workers(three: WorkersProcess) -> None:
    ready = three.ready()
    assert ready is not None
    assert ready["partitions"] == {"active": 50}
    assert ready["workers"] == ["ready", "ready", "ready"]
    lines = three.get("/metrics").splitlines()
    assert 'kafka_group_coordinator_partitions{state="active"} 50.0' in lines
    assert 'kafka_group_coordinator_workers{state="ready"} 3.0' in lines
    assert "kafka_group_coordinator_worker_restarts_total 0.0" in lines


def test_events_of_all_workers_come_in_one_stream(three: WorkersProcess) -> None:
    url = f"http://127.0.0.1:{three.http_port}/api/events"
    groups = [three.group_of(index, "event") for index in range(3)]
    with urllib.request.urlopen(url, timeout=10) as stream:
        heads = [stream.readline() for _ in range(6)]
        assert heads == [b"retry: 2000\n", b"\n"] * 3
        seen = set()
        for group in groups:
            with joined(three, group):
                line = b""
                while not (line.startswith(b"data:") and group.encode() in line):
                    line = stream.readline()
                seen.add(json.loads(line.removeprefix(b"data:"))["group"])
    assert seen == set(groups)


def test_the_page_is_there(three: WorkersProcess) -> None:
    assert "<html" in three.get("/")
