"""Starts a server and compares its answers with those recorded from Kafka 4.1.1."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coordinator_server.cli.healthcheck import Unhealthy
from tools.ports import free_port
from tools.starting import await_coordinator

ROOT = Path(__file__).resolve().parent.parent


class Run(NamedTuple):
    """A check: the server's settings, and the scenarios that must all pass."""

    golden: str
    settings: Sequence[str]
    options: Sequence[str]
    played: int
    """How many scenarios these are; fewer played is a failure."""


RUNS = (
    Run(
        golden="kafka-4.1.1.json",
        settings=("group.initial.rebalance.delay.ms=0",),
        options=("--except", "consumer/*", "--except", "transactions/*"),
        played=201,
    ),
    Run(
        golden="kafka-4.1.1-limits.json",
        # What tests/oracle/oracle/profiles.py has for the profile, of the properties we know.
        settings=(
            "group.initial.rebalance.delay.ms=2000",
            "group.max.size=2",
            "group.min.session.timeout.ms=1000",
            "group.max.session.timeout.ms=10000",
            "offset.metadata.max.bytes=16",
        ),
        options=(
            *("--profile", "limits"),
            *("--except", "limits/consumer-group-max-size"),
            *("--except", "limits/migration-disabled"),
        ),
        played=8,
    ),
)


def _check(port: int, run: Run) -> bool:
    command = [
        *(sys.executable, "-m", "oracle", "check", "--partial", "--strict-messages"),
        *("--bootstrap", f"127.0.0.1:{port}", "--golden", f"golden/{run.golden}"),
        *run.options,
    ]
    # It is found in its folder, even where what is run is looked for elsewhere.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    check = subprocess.run(
        command,
        cwd=ROOT / "tests/oracle",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(check.stdout, end="", flush=True)
    counts = re.search(r"(\d+) passed", check.stdout)
    passed = int(counts[1]) if counts else 0
    if passed != run.played:
        print(f"{passed} scenarios of {run.golden} passed, expected {run.played}", flush=True)
    return check.returncode == 0 and passed == run.played


def _serve_and_check(run: Run) -> bool:
    """Start a server with the settings of a run, in a folder of its own, and check it."""
    port = free_port()
    settings = (
        *run.settings,
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        "http.listener=",
        "log.level=error",
    )
    command = [sys.executable, "-m", "coordinator_server", "run"]
    command += [part for setting in settings for part in ("--set", setting)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")
    }
    # A compiled server is found first, where the caller has asked for it.
    found_first = filter(None, (environment.get("PYTHONPATH"), str(ROOT), str(ROOT / "protocol")))
    environment["PYTHONPATH"] = os.pathsep.join(found_first)
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(command, cwd=folder, env=environment)
        try:
            await_coordinator(port, lambda: server.poll() is not None)
            return _check(port, run)
        except Unhealthy as error:
            sys.exit(f"the server: {error}")
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    """Run all checks; the exit code says whether everything passed."""
    passed = [_serve_and_check(run) for run in RUNS]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
