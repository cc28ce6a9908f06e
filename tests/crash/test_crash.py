"""A server killed at any moment, and at the worst ones, has lost nothing it had acknowledged."""

from pathlib import Path
from random import Random

import pytest

from tests.crash.rounds import POINTS, RANDOM, CrashRounds


@pytest.mark.slow
def test_killed_at_every_named_point_and_at_random_moments_it_loses_nothing(
    tmp_path: Path,
) -> None:
    random = Random(11)
    with CrashRounds(tmp_path, seed=11) as crash_rounds:
        for point in (*POINTS, RANDOM):
            assert crash_rounds.round(point, random.randint(1, 8)) == []
            if point == "deleted":
                crash_rounds.die_at_start(random.randint(1, 12))
        assert crash_rounds.end() == []
        assert crash_rounds.kills >= 20
        assert crash_rounds.acknowledged > 500


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["interval", "os"])
def test_what_is_not_synced_survives_the_process_all_the_same(tmp_path: Path, flush: str) -> None:
    random = Random(13)
    with CrashRounds(tmp_path, seed=13, flush=flush) as crash_rounds:
        for point in ("journal-torn", "journaled", "torn", "unsynced", "recovery-points", RANDOM):
            assert crash_rounds.round(point, random.randint(1, 8)) == []
        assert crash_rounds.end() == []
        assert crash_rounds.acknowledged > 100


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("plant", "point"), [("forget-swaps", "deleted-named"), ("cut-last", RANDOM)]
)
def test_a_start_that_loses_something_is_noticed(tmp_path: Path, plant: str, point: str) -> None:
    with CrashRounds(tmp_path, seed=3, plant=plant) as crash_rounds:
        problems: list[str] = []
        for _ in range(4):
            problems = problems or crash_rounds.round(point)
        assert problems
