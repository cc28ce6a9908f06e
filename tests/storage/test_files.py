"""The system's file layer: small files are put in place whole or not at all."""

import os
from pathlib import Path

import pytest

from coordinator_server.storage.segments.checkpoint import RecoveryPoints
from coordinator_server.storage.segments.files import SYSTEM_FILES
from tests.support.simulated_disk import Inode, SimulatedDisk


def test_a_file_is_on_disk_before_it_gets_its_name_and_the_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note_sync(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def note_rename(path: Path, to: Path) -> Path:
        steps.append(f"rename {path.name} {to.name}")
        return rename(path, to)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    SYSTEM_FILES.replace(tmp_path / "points", b"new")
    assert steps == ["sync points.tmp", "rename points.tmp points", f"sync {tmp_path.name}"]
    assert (tmp_path / "points").read_bytes() == b"new"


def test_recovery_points_renamed_before_they_were_synced_are_never_half_believed() -> None:
    # Another file system's rename may come first; what is cut off then must not count.
    path = Path("/data/recovery-point-offset-checkpoint")
    text = b"0\n2\n__consumer_offsets 0 120\n__consumer_offsets 1 77\n"
    for size in range(len(text)):
        disk = SimulatedDisk()
        disk.names_now[path.parent] = None
        disk.names_now[path] = Inode(bytearray(text[:size]))
        points = RecoveryPoints(path.parent, disk)
        found = [points.of(f"__consumer_offsets-{n}") for n in (0, 1)]
        assert found in ([0, 0], [120, 77]), text[:size]


@pytest.mark.parametrize("size", [1, 256 * 1024, 3 * 256 * 1024 + 5])
def test_a_file_is_filled_with_zeros_from_a_place_on_and_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(
        os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor).st_size)
    )
    file = SYSTEM_FILES.open_block(tmp_path / "journal")
    file.write(0, b"what was there", durably=False)
    file.fill(5, size)
    file.close()
    written = (tmp_path / "journal").read_bytes()
    assert written == b"what " + bytes(size) + b"what was there"[5 + size :]
    assert synced == [len(written)]
