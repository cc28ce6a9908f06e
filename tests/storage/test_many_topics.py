"""One record to each of more partitions than files may be open, on a server with a low limit."""

import contextlib
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.data_plane import batch_of
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection, create_topic

PARTITIONS = 200
LIMIT = 300
NOW = 1_700_000_000_000


def produce(client: RawConnection, topic: str, indexes: range) -> list[str]:
    """One record to each partition; the errors."""
    data = [{"index": index, "records": batch_of((NOW, b"x"))} for index in indexes]
    reply = client.call(
        "Produce",
        7,
        acks=-1,
        timeout=10_000,
        topic_data=[{"name": topic, "partition_data": data}],
    )
    return [answer["error_code"] for answer in reply["responses"][0]["partition_responses"]]


def commit(client: RawConnection, group: str, offset: int) -> str:
    """The error of a commit."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    reply = client.call(
        "OffsetCommit",
        5,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": "many", "partitions": [partition]}],
    )
    code: str = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def lines(server: ServerProcess, event: str) -> list[dict[str, Any]]:
    """The lines of the log with an event."""
    found = [json.loads(line) for line in server.log_text().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def await_http(server: ServerProcess) -> None:
    """HTTP is opened a little after the listeners."""
    deadline = time.monotonic() + 30
    while True:
        try:
            server.get("/healthz")
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["commit", "os"])
def test_more_partitions_than_files_may_be_open_harm_no_group(tmp_path: Path, policy: str) -> None:
    settings = {"log.journal.bytes": "65536", "log.flush": policy}
    program = ("tests.support.limited_open_files", str(LIMIT))
    with ServerProcess(tmp_path, settings, program) as server:
        create_topic(server.bootstrap, "many", PARTITIONS)
        with RawConnection(server.bootstrap, timeout=60) as client:
            for turn in range(2):
                for first in range(0, PARTITIONS, 50):
                    errors = produce(client, "many", range(first, first + 50))
                    assert errors == ["NONE"] * 50
                    for number in range(5):
                        assert commit(client, f"g-{number}", turn * PARTITIONS + first) == "NONE"
            opened = sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())
        assert opened < LIMIT
        (told,) = lines(server, "file_limit")
        assert told["limit"] == LIMIT
        assert told["topics"] < PARTITIONS
        assert server.bugs() == []
        assert server.terminate() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_half_sent_http_requests_take_no_file_that_groups_need(
    tmp_path: Path, workers: str
) -> None:
    program = ("tests.support.limited_open_files", str(LIMIT))
    with (
        ServerProcess(tmp_path, {"workers": workers}, program) as server,
        contextlib.ExitStack() as open_ones,
        RawConnection(server.bootstrap, timeout=60) as client,
    ):
        create_topic(server.bootstrap, "many", 1)
        await_http(server)
        for number in range(2 * LIMIT):
            http = open_ones.enter_context(socket.socket())
            http.connect(("127.0.0.1", server.http_port))
            with contextlib.suppress(OSError):
                http.sendall(b"GET /healthz HT")
            if number % 20 == 0:
                # Of several workers one has the group.
                assert commit(client, "g", number) in ("NONE", "NOT_COORDINATOR")
        opened = sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())
        assert opened < LIMIT * 3 // 4
        assert server.bugs() == []
        assert lines(server, "tenure_ended") == []


def test_too_few_files_are_an_error_that_says_how_many_are_needed(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, {}, ("tests.support.limited_open_files", "64"))
    with pytest.raises(RuntimeError, match="did not start"):
        server.start(10)
    assert "the process may open 64 files but needs at least 184" in server.log_text()
