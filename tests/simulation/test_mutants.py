"""The simulation can fail: every planted bug is found within a bounded number of seeds."""

import pytest

from tests.simulation.mutants import MUTANTS, SEEDS, Mutant, caught
from tests.simulation.run import play, shrink
from tests.simulation.script import script_of

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("bug", [pytest.param(m, id=m.name.replace(" ", "_")) for m in MUTANTS])
def test_planted_bug_is_found(bug: Mutant) -> None:
    found = caught(bug)
    assert found is not None, f"not found in {SEEDS} seeds: {bug.name}"
    assert "TypeError" not in found[1].broken, "it does not fit the function that it replaces"


def test_the_shrunk_script_of_a_planted_bug_is_short_and_still_breaks_the_rule() -> None:
    bug = next(m for m in MUTANTS if m.name == "replies are not held")
    found = caught(bug)
    assert found is not None
    with bug.plant():
        shortest = shrink(found[1])
    assert shortest.broken
    assert len(shortest.script.steps) <= 20
    assert any("BROKEN" in line for line in shortest.report)
    assert not play(script_of(found[0])).broken
