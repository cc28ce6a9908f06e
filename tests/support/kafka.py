"""A real Kafka 4.1.1 for tests, and its command line tools; the jars are those of the oracle.

Tests that need it call `kafka_libs()` first, which skips where there is no Java or no jars.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.support.server import wait_until_it_answers
from tools.kafka_jars import ORACLE, NoJars, kafka_jars
from tools.ports import free_port

START_SECONDS = 90.0
TOOL_SECONDS = 60.0


def kafka_libs() -> Path:
    """The folder with Kafka's jars; skips, or fails in CI, where it cannot be had."""
    found = _libs()
    if isinstance(found, Path):
        return found
    if os.environ.get("COORDINATOR_CI"):
        pytest.fail(found)
    pytest.skip(found)


@cache
def _libs() -> Path | str:
    """The folder, or in one line why there is none."""
    try:
        return kafka_jars()
    except NoJars as error:
        return str(error)


def kafka_tool(
    main_class: str, *arguments: object, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command line tools; raises AssertionError with what it said."""
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{kafka_libs()}/*"]
    done = subprocess.run(
        [*command, main_class, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TOOL_SECONDS,
    )
    assert not check or done.returncode == 0, f"{main_class}: {done.stdout}{done.stderr}"
    return done


class Kafka:
    """One broker, which is its own controller; what it writes outlives its stops."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Prepare it; `settings` are broker properties besides addresses and directories."""
        kafka_libs()
        self.directory = directory
        self.data = directory / "data"
        """Its log directory."""
        self.port = free_port(in_a_row=2)  # its controller has the next one
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.java_options = "-XX:TieredStopAtLevel=1"
        """What the JVM of the next start is given besides; this lets it start with less CPU."""
        self._settings = {
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            **(settings or {}),
        }

    @property
    def pid(self) -> int:
        """Of the running broker; raises OSError where there is none."""
        return int((self.directory / "pid").read_text())

    @property
    def log(self) -> str:
        """What it has said."""
        return (self.directory / "kafka.log").read_text(errors="replace")

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start it and wait until its coordinator answers; raises AssertionError with its log."""
        self._settings |= settings or {}
        options = [part for pair in self._settings.items() for part in ("--set", "=".join(pair))]
        self._oracle("start", *options)
        wait_until_it_answers(self.bootstrap, START_SECONDS)

    def stop(self) -> None:
        """Stop it in order, which takes a few seconds; nothing happens if it is not running."""
        self._oracle("stop")

    def _oracle(self, action: str, *options: str) -> None:
        place = ["--port", str(self.port), "--dir", str(self.directory)]
        done = subprocess.run(
            [sys.executable, "-m", "oracle", "kafka", *place, *options, action],
            cwd=ORACLE,
            env={**os.environ, "JAVA_TOOL_OPTIONS": self.java_options},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"Kafka {action}: {done.stderr[-800:]}\n{self._last_words()}"

    def _last_words(self) -> str:
        return self.log[-2000:] if (self.directory / "kafka.log").exists() else ""


@contextmanager
def kafka(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Kafka]:
    """A running broker, stopped at the end."""
    broker = Kafka(directory, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
