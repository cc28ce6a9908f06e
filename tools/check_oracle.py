"""Starts a server and compares its answers with those recorded from Kafka 4.1.1."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coordinator_server.healthcheck import Unhealthy, find_coordinator

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ("framing", "handshake", "find-coordinator", "join", "sync", "heartbeat")
PLAYED = 110
"""How many scenarios these are; fewer played is a failure."""
START_SECONDS = 30.0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_until_healthy(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            find_coordinator("127.0.0.1", port, timeout=5)
        except Unhealthy as error:
            if server.poll() is not None or time.monotonic() > until:
                sys.exit(f"the server did not come up: {error}")
            time.sleep(0.1)
        else:
            return


def _check(port: int) -> int:
    only = [part for name in SCENARIOS for part in ("--only", f"{name}/*")]
    command = [
        *(sys.executable, "-m", "oracle", "check", "--partial", *only),
        *("--bootstrap", f"127.0.0.1:{port}", "--golden", "golden/kafka-4.1.1.json"),
    ]
    run = subprocess.run(
        command, cwd=ROOT / "tests/oracle", stdout=subprocess.PIPE, text=True, check=False
    )
    print(run.stdout, end="")
    counts = re.search(r"(\d+) passed", run.stdout)
    passed = int(counts[1]) if counts else 0
    if run.returncode == 0 and passed < PLAYED:
        print(f"{passed} scenarios passed, expected {PLAYED}")
        return 1
    return run.returncode


def main() -> None:
    """Run the check; the exit code says whether all of it passed."""
    port = _free_port()
    command = [
        *(sys.executable, "-m", "coordinator_server", "run", "--dev", "--set", "http.listener="),
        *("--set", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--set", "log.level=warning"),
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")
    }
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(command, cwd=folder, env={**environment, "PYTHONPATH": str(ROOT)})
        try:
            _wait_until_healthy(server, port)
            code = _check(port)
        finally:
            server.terminate()
            server.wait()
    sys.exit(code)


if __name__ == "__main__":
    main()
