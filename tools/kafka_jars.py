"""The jars of Apache Kafka 4.1.1, which the oracle has Maven fetch."""

import fcntl
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ORACLE = Path(__file__).parents[1] / "tests" / "oracle"

# Maven prints, too, and what it prints need not end with a line.
_PROGRAM = "from oracle.kafka import *; folder = jars(DEFAULT_VERSION); print(); print(folder)"


class NoJars(Exception):
    """They cannot be had here; says why, in one line."""


def kafka_jars() -> Path:
    """The folder they are in; one process at a time fetches. Raises NoJars."""
    if shutil.which("java") is None:
        raise NoJars("a real Kafka needs Java 17: no `java` in PATH")
    with (Path(tempfile.gettempdir()) / "kafka-jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=ORACLE,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise NoJars(f"a real Kafka needs its jars, which Maven fetches: {last}")
    return Path(done.stdout.splitlines()[-1])
