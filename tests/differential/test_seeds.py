"""Random scripts get the same answers from Kafka 4.1.1 and from this server."""

from collections import Counter
from pathlib import Path

import pytest

from tests.differential.comparison import Comparison, Outcome, both
from tests.differential.script import script_of
from tests.support.kafka import kafka_libs

SEEDS = range(40)
PARALLEL = 24


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_random_scripts_get_the_same_answers_from_kafka(tmp_path: Path) -> None:
    kafka_libs()
    outcomes: Counter[Outcome] = Counter()
    with both(tmp_path) as servers:
        comparison = Comparison(servers)
        scripts = (script_of(seed) for seed in SEEDS)
        async for verdict in comparison.verdicts(scripts, PARALLEL):
            assert verdict.outcome is not Outcome.DIFFERS, verdict
            outcomes[verdict.outcome] += 1
    assert outcomes[Outcome.SAME] > len(SEEDS) / 2, outcomes


def test_a_seed_is_one_script() -> None:
    assert [script_of(seed) for seed in range(50)] == [script_of(seed) for seed in range(50)]
