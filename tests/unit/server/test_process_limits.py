"""A server that may open too few files says so, and how many it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_server.server.process_limits import limit_reached
from tools.ports import free_port
from tools.starting import await_coordinator


def run(folder: Path, files: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "coordinator_server", "run", "--dev", *more]
    command += ["--set", "http.listener=127.0.0.1:0", "--set", "log.format=json"]
    return subprocess.Popen(
        ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command],
        stderr=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(folder), "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sixty_four_files_are_too_few(tmp_path: Path, workers: str) -> None:
    listeners = f"PLAINTEXT://127.0.0.1:{free_port()}"
    partitions = "offsets.topic.num.partitions=100"
    server = run(tmp_path, 64, "--listeners", listeners, "--workers", workers, "--set", partitions)
    _, told = server.communicate(timeout=60)
    assert server.returncode == 2
    assert "may open 64 files but needs at least" in told
    assert "raise the limit (ulimit -n" in told
    assert "Traceback" not in told
    assert not list(tmp_path.iterdir())


def test_two_hundred_fifty_six_are_enough_for_few_partitions(tmp_path: Path) -> None:
    port = free_port()
    few = ("--set", "offsets.topic.num.partitions=20")
    server = run(tmp_path, 256, "--listeners", f"PLAINTEXT://127.0.0.1:{port}", *few)
    try:
        await_coordinator(port, lambda: server.poll() is not None)
    finally:
        server.terminate()
        _, told = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there is not enough memory: raise the limits of memory"),
        (RuntimeError("can't start new thread"), "can't start new thread: raise the limits"),
    ],
)
def test_a_start_that_runs_out_of_memory_or_threads_says_so(
    error: MemoryError | RuntimeError, said: str
) -> None:
    assert str(limit_reached(error)).startswith(said)


def test_another_error_of_a_start_is_a_bug() -> None:
    assert limit_reached(RuntimeError("no running event loop")) is None
