"""What a starting server imports: its share of the time until the first answer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.ports import free_port
from tools.starting import await_coordinator

LATE = {"aiokafka", "hypothesis", "kio", "rich", "scramp"}
ONLY_FOR_HTTP = {"aiohttp", "prometheus_client"}


def imported_by_a_run(folder: Path, http: str) -> set[str]:
    """The packages of which a server imports a module, from its start to its end.

    The package's own line does not count: it is there for an import that was refused, too.
    """
    port = free_port()
    log = folder / "log"
    command = [
        *(sys.executable, "-X", "importtime", "-m", "coordinator_server", "run", "--dev"),
        *("--listeners", f"PLAINTEXT://127.0.0.1:{port}", "--set", f"http.listener={http}"),
    ]
    with log.open("wb") as stderr:
        server = subprocess.Popen(command, stderr=stderr)
    try:
        await_coordinator(port, lambda: server.poll() is not None)
    finally:
        server.terminate()
        server.wait()
    assert server.returncode == 0, log.read_text()
    found = re.findall(r"^import time:.*\| +(\w+)\.", log.read_text(), re.MULTILINE)
    return set(found)


def test_a_server_without_http_imports_nothing_of_it(tmp_path: Path) -> None:
    imported = imported_by_a_run(tmp_path, http="")
    assert {"uvloop", "structlog"} <= imported
    assert imported & (LATE | ONLY_FOR_HTTP) == set()


@pytest.mark.slow
def test_a_server_with_http_imports_that_and_no_more(tmp_path: Path) -> None:
    imported = imported_by_a_run(tmp_path, http="127.0.0.1:0")
    assert imported >= ONLY_FOR_HTTP
    assert imported & LATE == set()


def test_the_collector_rests_during_a_start_and_no_longer() -> None:
    code = (
        "import gc; from coordinator_server.cli import main; main._disable_collector();"
        "print(gc.isenabled()); from coordinator_server.server.run import freeze_heap;"
        "freeze_heap(); print(gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
