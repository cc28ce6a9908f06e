"""What a starting server imports: its share of the time until the first answer."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordinator_server.healthcheck import Unhealthy, find_coordinator
from tools.ports import free_port

LATE = {"aiokafka", "hypothesis", "kio", "rich", "scramp"}
ONLY_FOR_HTTP = {"aiohttp", "prometheus_client"}


def wait_until_healthy(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            find_coordinator("127.0.0.1", port, timeout=5)
        except Unhealthy:
            assert server.poll() is None, "the server ended by itself"
            assert time.monotonic() < deadline, "the server does not answer"
        else:
            return


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
        wait_until_healthy(server, port)
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
        "import gc; from coordinator_server import cli; cli._rest_collector();"
        "print(gc.isenabled()); from coordinator_server.serving import calm_collector;"
        "calm_collector(); print(gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
