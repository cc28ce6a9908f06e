"""A writer killed with -9 at any moment has lost nothing it had acknowledged."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from coordinator_server.storage.segments.flusher import FlushPolicy
from tests.support.appending_process import PARTITIONS, open_storage
from tests.support.records import loaded, numbers

ROOT = Path(__file__).parents[2]
ROUNDS = 3


def killed_writer(data: Path, first: int, after: int, policy: FlushPolicy) -> list[int]:
    """What a writer acknowledged before it was killed, which is after so many records or more."""
    command = [
        sys.executable,
        "-m",
        "tests.support.appending_process",
        str(data),
        str(first),
        policy,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(after)]
        writer.kill()
        lines += writer.stdout.readlines()
    return [int(line) for line in lines if line.endswith(b"\n")]


async def found_in(data: Path) -> list[int]:
    directory, storage = open_storage(data)
    found: list[int] = []
    for partition in range(PARTITIONS):
        log = await storage.claim(partition)
        of_partition = numbers(await loaded(log))
        assert of_partition == sorted(of_partition)
        found += of_partition
        await log.close()
    await storage.flusher.close()
    directory.close()
    return found


@pytest.mark.parametrize("policy", FlushPolicy)
async def test_no_acknowledged_record_is_lost_when_the_writer_is_killed(
    tmp_path: Path, policy: FlushPolicy
) -> None:
    random = Random(7)
    acknowledged: set[int] = set()
    for number in range(ROUNDS):
        after = random.randint(1, 400)
        heard = killed_writer(tmp_path / "data", number * 1_000_000, after, policy)
        assert heard
        acknowledged.update(heard)
        found = await found_in(tmp_path / "data")
        assert acknowledged <= set(found)
        assert len(found) == len(set(found))
