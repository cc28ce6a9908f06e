"""What happened to groups when a log was compacted, or closed meanwhile."""

from pathlib import Path

from tests.crash.ordeal import Ordeal
from tests.support.compacted import Step, a_disk, close_while_compacting, open_log, state_of, write


def test_groups_survive_a_server_that_dies_while_it_compacts(tmp_path: Path) -> None:
    """B61, franz-go TestPersistLogCompactionCrashGroups. Generations and offsets alike."""
    with Ordeal(tmp_path, seed=61) as ordeal:
        for point in ("swap-named", "deleted-named", "replaced"):
            assert ordeal.round(point) == []
        assert ordeal.end() == []


def test_a_log_that_is_closed_while_it_is_compacted_keeps_its_groups() -> None:
    """B61, TestPersistSaveGroupsLogCloseBeforeTruncate. Closing waits, compaction gives up."""
    disk = a_disk()
    log = open_log(disk)
    steps: list[Step] = [("commit", number % 5, 0) for number in range(60)]
    write(log, [[step] for step in steps])
    state = state_of(log)
    close_while_compacting(log)
    assert state_of(open_log(disk)) == state
