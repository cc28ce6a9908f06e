"""Folders with the sockets of workers, and those that a killed supervisor has left."""

import os
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator_server.config import Config
from coordinator_server.workers.http_sockets import (
    PREFIX,
    YOUNG_SECONDS,
    bind_http,
    remove_abandoned,
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def an_old_folder(where: Path, name: str) -> tuple[Path, socket.socket]:
    """A folder with a socket that listens, as a supervisor has it."""
    folder = where / f"{PREFIX}{name}"
    folder.mkdir()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "0.sock"))
    listening.listen()
    age(folder)
    return folder, listening


def age(folder: Path) -> None:
    old = time.time() - 2 * YOUNG_SECONDS
    os.utime(folder, (old, old))


def test_the_folder_of_a_supervisor_that_is_gone_is_removed_and_others_stay(
    temporary: Path,
) -> None:
    dead, socket_of_the_dead = an_old_folder(temporary, "dead")
    alive, socket_of_the_living = an_old_folder(temporary, "alive")
    young, socket_of_the_young = an_old_folder(temporary, "young")
    os.utime(young)
    stranger = temporary / "coordinator-x"
    stranger.mkdir()
    age(stranger)
    socket_of_the_dead.close()
    socket_of_the_young.close()
    remove_abandoned(time.time())
    assert not dead.exists()
    assert all(folder.is_dir() for folder in (alive, young, stranger))
    socket_of_the_living.close()


def test_what_is_no_socket_is_left_alone(temporary: Path) -> None:
    folder = temporary / f"{PREFIX}notes"
    folder.mkdir()
    (folder / "readme").write_text("mine")
    age(folder)
    remove_abandoned(time.time())
    assert (folder / "readme").read_text() == "mine"


def test_the_sockets_of_a_server_are_gone_with_it_and_begin_by_removing_the_abandoned(
    temporary: Path,
) -> None:
    dead, socket_of_the_dead = an_old_folder(temporary, "dead")
    socket_of_the_dead.close()
    with ExitStack() as undo:
        sockets = bind_http(undo, Config(workers=2))
        assert len(sockets) == 2
        assert not dead.exists()
    assert not list(temporary.iterdir())
