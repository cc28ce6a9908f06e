"""The examples of the README do what it says, as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from coordinator_server.testing.server import TestCoordinator

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPT, TEST = (
    example
    for example in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    if example.startswith("from confluent_kafka import")
)


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_first_script_prints_what_it_has_produced_and_goes_on_from_there(
    tmp_path: Path, coordinator: TestCoordinator
) -> None:
    script = tmp_path / "hello.py"
    script.write_text(SCRIPT.replace("127.0.0.1:9092", coordinator.bootstrap))
    printed = [run(tmp_path, "hello.py") for _ in range(2)]
    assert printed[0] == "orders, partition 0, offset 0: hello\n"
    assert f"says `{printed[0].strip()}`, and one offset more each time" in README
    assert printed[1] == "orders, partition 0, offset 1: hello\n"


def test_example_of_a_test_passes(tmp_path: Path) -> None:
    (tmp_path / "test_client.py").write_text(TEST)
    plugin = ("-p", "coordinator_server.testing.plugin", "-p", "no:cacheprovider")
    assert "1 passed" in run(tmp_path, "-m", "pytest", *plugin)
