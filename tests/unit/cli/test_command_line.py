"""The command line as a whole: what it imports, and how wrong words end."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_server import __version__
from tests.support.commandline import invoke


def test_the_version_is_the_packages() -> None:
    assert invoke("--version") == (0, f"{__version__}\n", "")


def imported_by(*arguments: str) -> set[str]:
    """The top-level packages that a command imports."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "coordinator_server", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


LATE = {"aiohttp", "aiokafka", "kio", "hypothesis", "prometheus_client", "pydantic"}


def test_reading_the_settings_imports_nothing_that_is_not_needed_for_it() -> None:
    imported = imported_by("run", "--set", "node.id=x")
    assert "click" in imported
    assert not imported & {*LATE, "asyncio", "rich", "structlog"}


def test_the_log_does_not_bring_rich_along() -> None:
    code = (
        "import sys; from coordinator_server.observe import log; assert 'structlog' in sys.modules;"
        "assert not [name for name in sys.modules if name.startswith('rich')];"
        "import rich; rich.print('rich is there')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.stdout, ended.stderr) == ("rich is there\n", "")


def ended(*arguments: str | bytes | Path) -> tuple[int, str]:
    """Exit code and standard error of the command as a process of its own."""
    command = [sys.executable, "-m", "coordinator_server", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return result.returncode, result.stderr


def test_what_is_no_utf_8_is_a_wrong_argument() -> None:
    assert ended("groups", "why", b"\xff") == (2, "error: '\\udcff': expected UTF-8\n")


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_path_that_the_system_refuses_is_an_error_in_words(command: str) -> None:
    name = "x" * 300
    assert ended("log", command, name) == (1, f"error: {name}: File name too long\n")


def cannot_run(*settings: str | Path) -> str:
    """Why a server does not start, by its log."""
    code, log = ended("run", "--listeners", "PLAINTEXT://127.0.0.1:0", *settings)
    assert code == 1, log
    (line,) = [line for line in map(json.loads, log.splitlines()) if line["event"] == "cannot_run"]
    assert "exc_info" not in line
    return str(line["error"])


def test_a_data_directory_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = cannot_run("--log-dirs", tmp_path / "file", "--set", "http.listener=")
    expected = "File exists, expected a directory that can be made"
    assert error == f"log.dirs={tmp_path}/file: {expected}"


def test_a_data_directory_that_cannot_be_written_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "data" / ".lock").mkdir(parents=True)
    error = cannot_run("--log-dirs", tmp_path / "data", "--set", "http.listener=")
    expected = "Is a directory, expected a directory that can be written"
    assert error == f"log.dirs={tmp_path}/data: {expected}"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_http_port_in_use_is_named_with_its_setting(tmp_path: Path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = ("--set", f"http.listener={address}", "--workers", workers)
        error = cannot_run("--log-dirs", tmp_path / "data", *settings)
    assert error.startswith(f"http.listener={address} cannot be opened: ")
