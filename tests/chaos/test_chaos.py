"""An exception anywhere in a server under load is survived: a sample of what `make chaos` tries."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.chaos.former_failures import FORMER_FAILURES
from tests.chaos.injector import EXCEPTIONS
from tests.chaos.plan import Work, Worker, arms, plan
from tests.chaos.recording import Recording, record
from tests.chaos.server import Arm
from tests.chaos.trials import Trials

SAMPLE = 40
SEED = 24
JOBS = 2

pytestmark = [pytest.mark.slow, pytest.mark.interpreted, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The points of this server."""
    found, problems = asyncio.run(record(tmp_path_factory.mktemp("recorded")))
    assert problems == []
    return found


def test_the_points_are_found_and_most_of_them_are_passed(recording: Recording) -> None:
    kinds = [kind for found in recording.found.values() for kind in found.kinds]
    assert {"await", "callback", "thread", "port"} == set(kinds)
    assert len(recording.found) > recording.total * 0.6 > 300
    for phase in ("run", "start", "stop"):
        assert any(found.phase == phase for found in recording.found.values())


def test_a_sample_of_exceptions_and_all_former_failures_are_survived(
    recording: Recording, tmp_path: Path
) -> None:
    random = Random(SEED)
    chosen = arms(recording, list(EXCEPTIONS), "", random)
    every = [(phase, arm) for phase, each in chosen.items() for arm in each]
    kept = random.sample(every, SAMPLE)
    kept += [one for one in every if (one[1][0], one[1][1]) in FORMER_FAILURES and one not in kept]
    work = plan(recording, {p: [arm for q, arm in kept if p == q] for p in chosen}, random)
    asyncio.run(_work(tmp_path, work))
    assert [str(each) for each in work.verdicts if each.outcome == "failed"] == []
    assert work.tried > SAMPLE / 2


def test_points_that_have_failed_once_are_still_there(recording: Recording) -> None:
    missing = [point for point, _ in FORMER_FAILURES if point not in recording.found]
    assert missing == [], "give their new names, or remove them if their code is gone"


async def _work(directory: Path, work: Work) -> None:
    workers = [Worker(directory / str(number), work, print) for number in range(JOBS)]
    await asyncio.gather(*[worker.run() for worker in workers])


@pytest.mark.parametrize(
    ("plant", "arm", "symptom"),
    [
        ("silent-failures", ("api.fetch.handle", "RuntimeError", 1, 0), "stuck"),
        ("cut-last", ("api.fetch.handle", "RuntimeError", 1, 0), "were synced"),
    ],
)
async def test_a_planted_bug_is_noticed(tmp_path: Path, plant: str, arm: Arm, symptom: str) -> None:
    async with Trials(tmp_path, plant=plant) as trials:
        await trials.start()
        (verdict,) = await trials.strike([arm], frozenset())
        problems = [*verdict.symptoms, *await trials.again()]
    assert any(symptom in problem for problem in problems), problems
