"""`make demo` shows what it promises, and ends by itself."""

import subprocess
import sys

from tests.support.client_processes import ROOT


def test_the_demo_shows_why_the_group_rebalanced() -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "tools.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    for shown in (
        "(member_joined): consumer-1 joined",
        "(member_joined): consumer-3 joined",
        "(member_left): consumer-2 left",
        "(session_expired): consumer-3 was not heard of",
        "group billing: ",
    ):
        assert shown in demo.stdout, demo.stdout
