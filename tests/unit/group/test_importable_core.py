"""The core as others import it: alone."""

import re
import subprocess
import sys
from pathlib import Path

from coordinator_server.group.context import Limits

ROOT = Path(__file__).resolve().parents[3]
FORBIDDEN = ("asyncio", "uvloop", "socket", "logging", "structlog", "random", "kio")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_core_imports_no_input_output_clock_or_chance() -> None:
    code = "import sys, coordinator_server.group; print(*sys.modules)"
    imported = {name.split(".")[0] for name in run(code).split()}
    assert imported.isdisjoint(FORBIDDEN)


def test_documented_example_prints_what_it_says() -> None:
    text = (ROOT / "docs/core.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    printed = run(example).splitlines()
    assert [line.partition("(")[0] for line in printed] == [
        "first join -> Refuse",
        "RebalanceStarted member_joined",
        "second join -> Joined",
        "sync -> Synced",
        "RebalanceEvent member_joined",
        "heartbeat -> Done",
        "MemberRemoved session_expired",
        "RebalanceStarted session_expired",
        "RebalanceEvent session_expired",
    ]


def test_limits_are_kafkas_where_nothing_else_is_configured() -> None:
    assert Limits() == Limits(
        initial_rebalance_delay_ms=3_000,
        new_member_join_timeout_ms=300_000,
        group_max_size=2_147_483_647,
        offset_metadata_max_chars=4_096,
        offsets_retention_ms=604_800_000,
        max_append_bytes=16_777_216,
    )
