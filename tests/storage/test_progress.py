"""How far loads are, in bytes, and the lines that say so."""

from coordinator_server.storage.segments.batch_reader import RECORDS_PER_TURN
from coordinator_server.storage.segments.progress import LoadProgress
from tests.storage.conftest import SegmentRig
from tests.support.appending import appended
from tests.support.records import record


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_line_comes_at_most_every_second_and_partition() -> None:
    lines: list[tuple[str, dict[str, object]]] = []
    clock = Clock()
    progress = LoadProgress(lambda event, **fields: lines.append((event, fields)), clock)
    progress.begin(3, 1_000)
    progress.begin(4, 10)
    for done in range(0, 1_000, 100):
        clock.seconds += 0.25
        progress.advance(3, done)
    assert progress.loads() == {3: (900, 1_000), 4: (0, 10)}
    progress.end(3)
    progress.end(4)
    assert progress.loads() == {}
    of_three = [{"partition": 3, "bytes": done, "of": 1_000} for done in (300, 700)]
    assert lines == [("partition_loading", fields) for fields in of_three]


async def test_a_load_is_in_progress_until_its_last_record_was_taken(segments: SegmentRig) -> None:
    async with segments.run() as storage:
        log = await storage.claim(1)
        for first in (0, RECORDS_PER_TURN):
            await appended(log, [record(first + number) for number in range(RECORDS_PER_TURN)])
        await log.close()
        log = await storage.claim(1)
        size, _dirty = storage.sizes()[1]
        seen = [storage.progress.loads()[1] async for _ in log.load()]
        assert [total for _, total in seen] == [size, size]
        assert seen[0][0] == 0 < seen[1][0] < size
        assert storage.progress.loads() == {}
