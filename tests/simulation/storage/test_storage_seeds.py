"""No seed breaks a rule of the storage, every planted bug is found, a seed is always the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.storage.instrument import instrumented
from tests.simulation.storage.planted import PLANTED, SEEDS, Planted, caught
from tests.simulation.storage.run import shrink
from tests.simulation.storage.setup import setup_of
from tests.simulation.storage.world import play

pytestmark = [pytest.mark.sim, pytest.mark.interpreted]

SOUND_SEEDS = 40
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_rule(part: int) -> None:
    with instrumented():
        for seed in range(part, SOUND_SEEDS, PARTS):
            outcome = play(setup_of(seed))
            assert not outcome.broken, f"python -m tests.simulation.storage --seed {seed}"


@pytest.mark.parametrize("bug", [pytest.param(b, id=b.name.replace(" ", "_")) for b in PLANTED])
def test_planted_bug_is_found(bug: Planted) -> None:
    found = caught(bug)
    assert found is not None, f"not found in {SEEDS} seeds: {bug.name}"
    with instrumented():
        assert not play(found.setup).broken


def test_history_of_a_planted_bug_is_shortened() -> None:
    bug = next(bug for bug in PLANTED if bug.name == "reply before the write")
    found = caught(bug)
    assert found is not None
    with instrumented(*bug.edits):
        shortest = shrink(found)
    assert shortest.broken
    assert len(shortest.setup.lives) <= len(found.setup.lives)
    assert shortest.setup.operations <= found.setup.operations
    assert any("records appended" in line for line in shortest.history)


def test_a_seed_is_the_same_in_every_process() -> None:
    program = (
        "from tests.simulation.storage.instrument import instrumented\n"
        "from tests.simulation.storage.setup import setup_of\n"
        "from tests.simulation.storage.world import play\n"
        "with instrumented():\n"
        "    for seed in range(6):\n"
        "        print(*play(setup_of(seed), history=10_000).history, sep='\\n')\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"durable") > 20
