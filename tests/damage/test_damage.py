"""Starts on damaged directories serve everything, or say which file is damaged; and plants show."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_server.storage.segments import (
    journal,
    journal_recovery,
    segment_recovery,
    storage,
)
from coordinator_server.storage.segments.journal_manifest import JournalManifest
from coordinator_server.storage.segments.log import SegmentLog
from tests.damage.check import GOOD, Outcome
from tests.damage.harness import run, run_round
from tests.damage.templates import TEMPLATES, Made, make

ROUNDS = 40
PLANT_ROUNDS = 60
BY_NAME = {template.name: template for template in TEMPLATES}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(BY_NAME["killed"], tmp_path_factory.mktemp("killed"), seed=3)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(BY_NAME["stopped"], tmp_path_factory.mktemp("stopped"), seed=3)


@pytest.mark.slow
def test_no_damage_is_hidden(killed: Made, stopped: Made, tmp_path: Path) -> None:
    tally = run([killed, stopped], tmp_path, ROUNDS, seed=11)
    assert tally.bad == [], "\n".join(tally.bad)
    assert {outcome for _, outcome in tally.outcomes} == set(GOOD)


def damage_of_the_journal_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal_recovery, "damages_of", lambda *_: [])


def a_missing_journal_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournalManifest, "listed", lambda _manifest: {})


def marks_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "check_mark", lambda *_: True)
    patch.setattr(journal.Journal, "is_expected", lambda *_: False)


def gaps_between_segments_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "check_contiguous", lambda *_: None)
    patch.setattr(segment_recovery, "first_epoch_offset", lambda _text: None)


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("plant", "only"),
    [
        (damage_of_the_journal_is_passed_over, "journal"),
        (a_missing_journal_is_passed_over, "journal"),
        (marks_are_not_compared, "partition.metadata"),
        (gaps_between_segments_are_passed_over, "segment"),
    ],
)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None],
    only: str,
    killed: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    for number in range(PLANT_ROUNDS):
        _, finding = run_round(killed, tmp_path / "data", f"planted {number}", only)
        if finding.outcome is Outcome.STALE:
            return
    pytest.fail(f"{PLANT_ROUNDS} damaged directories have not noticed it")
