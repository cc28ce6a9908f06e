"""Temporary folders of `run --dev`: whose is removed, and whose is not."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from coordinator_server.server.dev_data_dir import LOCK, PREFIX, temporary_data_dir

KILLED = """
import os, signal
from coordinator_server.server.dev_data_dir import temporary_data_dir
with temporary_data_dir() as data:
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / "0.log").write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def kill_one() -> None:
    assert subprocess.run((sys.executable, "-c", KILLED), check=False).returncode == -9


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_folder_is_gone_when_the_server_is(temporary: Path) -> None:
    with temporary_data_dir() as data:
        data.mkdir()
        (data / "meta.properties").write_text("")
        assert names(temporary) == {data.parent.name}
    assert names(temporary) == set()


def test_folder_of_a_killed_server_is_removed_by_the_next(temporary: Path) -> None:
    kill_one()
    (left,) = names(temporary)
    with temporary_data_dir() as data:
        assert names(temporary) == {data.parent.name} != {left}


def test_folder_of_a_server_that_lives_is_left_alone(temporary: Path) -> None:
    with temporary_data_dir() as first:
        first.mkdir()
        with temporary_data_dir() as second:
            assert names(temporary) == {first.parent.name, second.parent.name}
        assert first.exists()


def test_folder_of_somebody_else_is_left_alone(temporary: Path) -> None:
    kill_one()
    (left,) = temporary.iterdir()
    left = left.rename(temporary / "coordinator-other")
    (temporary / f"{PREFIX}linked").symlink_to(left)
    (temporary / f"{PREFIX}unlocked" / "data").mkdir(parents=True)
    linked = temporary / f"{PREFIX}link-as-lock"
    linked.mkdir()
    (linked / LOCK).symlink_to(left / LOCK)
    before = set(temporary.rglob("*"))
    with temporary_data_dir():
        pass
    assert set(temporary.rglob("*")) == before


def test_what_others_have_put_beside_the_data_is_kept(temporary: Path) -> None:
    kill_one()
    (left,) = temporary.iterdir()
    (left / "notes").write_text("mine")
    with temporary_data_dir():
        pass
    assert names(temporary) == {left.name}
    assert names(left) == {"notes"}
