"""A data directory that is removed or replaced under a running server: nothing is acknowledged."""

import shutil
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess
from tests.support.wire import RawConnection

WITHIN_SECONDS = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    settings = {"topics": "t:1", "offsets.topic.num.partitions": "2"}
    with ServerProcess(tmp_path, settings) as running:
        commit_until(running, "NONE")
        # So that the journal begins behind what is in the segments.
        running.terminate()
        running.start()
        await_ready(running)
        yield running


def await_ready(server: ServerProcess) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not is_ready(server):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def commit(server: ServerProcess, group: str = "g") -> str:
    """The code of a commit."""
    places = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    with RawConnection(server.bootstrap) as connection:
        reply = connection.call(
            "OffsetCommit",
            7,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": "t", "partitions": places}],
        )
    code: str = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def commit_until(server: ServerProcess, *codes: str) -> str:
    """Commit until the answer is one of these."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while (code := commit(server)) not in codes:
        assert time.monotonic() < deadline, f"still {code}\n{server.log_tail()}"
        time.sleep(0.02)
    return code


def is_ready(server: ServerProcess) -> bool:
    try:
        server.get("/readyz")
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return False
    except urllib.error.URLError:
        # HTTP is opened a little after the listeners.
        return False
    return True


def removed(data: Path) -> None:
    shutil.rmtree(data)


def moved_and_made_anew(data: Path) -> None:
    data.rename(data.with_name("elsewhere"))
    data.mkdir()


def replaced_by_a_copy(data: Path) -> None:
    shutil.copytree(data, data.with_name("copy"))
    data.rename(data.with_name("elsewhere"))
    data.with_name("copy").rename(data)


@pytest.mark.parametrize(
    "loss", [removed, moved_and_made_anew, replaced_by_a_copy], ids=lambda each: each.__name__
)
def test_commits_are_refused_and_the_exit_code_says_so(
    server: ServerProcess, tmp_path: Path, loss: Callable[[Path], None]
) -> None:
    data = tmp_path / "data"
    loss(data)
    there = sorted(data.iterdir()) if data.exists() else None
    commit_until(server, "COORDINATOR_NOT_AVAILABLE")
    deadline = time.monotonic() + WITHIN_SECONDS
    while is_ready(server):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # Refused for good, not for a moment.
    assert [commit(server) for _ in range(20)].count("NONE") == 0
    assert server.terminate() == 1
    lines = [line for line in server.log_text().splitlines() if "data_directory_lost" in line]
    assert lines
    assert all(str(data) in line and '"level": "error"' in line for line in lines)
    assert "Traceback" not in server.log_text()
    # Nothing was written into what is there now, which may be another server's.
    assert (sorted(data.iterdir()) if data.exists() else None) == there


def test_a_directory_that_comes_back_is_used_again(server: ServerProcess, tmp_path: Path) -> None:
    data, aside = tmp_path / "data", tmp_path / "aside"
    data.rename(aside)
    commit_until(server, "COORDINATOR_NOT_AVAILABLE")
    aside.rename(data)
    commit_until(server, "NONE")
    assert server.terminate() == 0


def test_the_directory_of_one_partition_stops_that_one(
    server: ServerProcess, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    groups = [f"group-{number}" for number in range(8)]
    assert {commit(server, group) for group in groups} == {"NONE"}
    server.restart()
    await_ready(server)
    shutil.rmtree(data / "__consumer_offsets-0")
    deadline = time.monotonic() + WITHIN_SECONDS
    codes: list[str] = []
    while set(codes) != {"NONE", "COORDINATOR_NOT_AVAILABLE"}:
        assert time.monotonic() < deadline, codes
        time.sleep(0.05)
        codes = [commit(server, group) for group in groups]
    lost = str(data / "__consumer_offsets-0")
    # The log is written some milliseconds later.
    while not any("log_directory_lost" in e and lost in e for e in server.log_text().splitlines()):
        assert time.monotonic() < deadline, server.log_tail()
        time.sleep(0.05)
