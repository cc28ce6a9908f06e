"""What happened to groups when a log was compacted, or closed meanwhile."""

from pathlib import Path

from tests.crash.rounds import CrashRounds
from tests.support.compacted_logs import (
    Step,
    close_while_compacting,
    open_log,
    simulated_disk,
    state_of,
    write,
)


def test_groups_survive_a_server_that_dies_while_it_compacts(tmp_path: Path) -> None:
    """B61, franz-go TestPersistLogCompactionCrashGroups. Generations and offsets alike."""
    with CrashRounds(tmp_path, seed=61) as crash_rounds:
        for point in ("swap-named", "deleted-named", "replaced"):
            assert crash_rounds.round(point) == []
        assert crash_rounds.end() == []


def test_a_log_that_is_closed_while_it_is_compacted_keeps_its_groups() -> None:
    """B61, TestPersistSaveGroupsLogCloseBeforeTruncate. Closing waits, compaction gives up."""
    disk = simulated_disk()
    log = open_log(disk)
    steps: list[Step] = [("commit", number % 5, 0) for number in range(60)]
    write(log, [[step] for step in steps])
    state = state_of(log)
    close_while_compacting(log)
    assert state_of(open_log(disk)) == state
