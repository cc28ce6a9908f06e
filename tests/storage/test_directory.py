"""A data directory has one holder, one node and one cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_server.storage.segments.directory import DataDirectory, DirectoryInUse

HOLDER = """
import sys
from pathlib import Path
from coordinator_server.storage.segments.directory import DataDirectory
DataDirectory(Path(sys.argv[1]), node_id=1, cluster_id=None)
print("held", flush=True)
sys.stdin.read()
"""


def directory(path: Path, node_id: int = 1, cluster_id: str | None = None) -> DataDirectory:
    return DataDirectory(path / "data", node_id=node_id, cluster_id=cluster_id)


def test_a_second_holder_is_refused_with_path_and_process(tmp_path: Path) -> None:
    held = directory(tmp_path)
    with pytest.raises(DirectoryInUse, match=f"{tmp_path}/data is in use by process {os.getpid()}"):
        directory(tmp_path)
    held.close()
    directory(tmp_path).close()


def test_another_process_is_named_and_its_death_frees_the_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUse, match=f"in use by process {holder.pid}"):
            directory(tmp_path)
        holder.kill()
    directory(tmp_path).close()


def test_a_cluster_id_is_made_once_and_kept(tmp_path: Path) -> None:
    first = directory(tmp_path)
    first.close()
    second = directory(tmp_path, cluster_id=first.cluster_id)
    second.close()
    assert first.cluster_id == second.cluster_id
    assert len(first.cluster_id) == 22
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert lines[:3] == ["version=1", f"cluster.id={first.cluster_id}", "node.id=1"]


@pytest.mark.parametrize(
    ("node_id", "cluster_id", "complaint"),
    [(2, None, "node.id=1, but the settings say 2"), (1, "other", "settings say other")],
)
def test_the_directory_of_another_is_refused_by_name_and_value(
    tmp_path: Path, node_id: int, cluster_id: str | None, complaint: str
) -> None:
    directory(tmp_path).close()
    with pytest.raises(ValueError, match=complaint):
        directory(tmp_path, node_id, cluster_id)
    directory(tmp_path).close()


def test_every_start_is_counted(tmp_path: Path) -> None:
    starts = []
    for _ in range(3):
        held = directory(tmp_path)
        starts.append(held.start)
        held.close()
    assert starts == [1, 2, 3]


def test_the_directory_of_a_broker_loses_its_mark_of_a_clean_stop(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    (tmp_path / "data" / "meta.properties").write_text(
        "#\n#Sat Nov 21 09:44:58 UTC 2026\n"
        "node.id=1\nversion=1\ncluster.id=dqAyeMX6QTKxW0PaO_-dwA\n"
    )
    held = directory(tmp_path)
    assert held.cluster_id == "dqAyeMX6QTKxW0PaO_-dwA"
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    held.close()


@pytest.mark.parametrize("name", ["meta.properties", "coordinator-starts"])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, name: str) -> None:
    directory(tmp_path).close()
    (tmp_path / "data" / name).write_bytes(b"ab\xc1")
    with pytest.raises(ValueError, match=f"{name}: byte 2 is not UTF-8, expected text"):
        directory(tmp_path)
