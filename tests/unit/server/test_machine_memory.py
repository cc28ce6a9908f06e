"""How much memory there is for client data, on a machine and in a control group."""

from pathlib import Path

import pytest

from coordinator_server.config import Config
from coordinator_server.net.memory import UNLIMITED
from coordinator_server.server.component_settings import client_memory
from coordinator_server.server.machine_memory import available_memory, default_client_memory

GIB = 1 << 30


def own(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "cgroup"
    file.write_text(text)
    return file


def limit(tmp_path: Path, path: str, text: str) -> None:
    file = tmp_path / "fs" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_control_groups_it_is_the_memory_of_the_machine(tmp_path: Path) -> None:
    physical = available_memory(tmp_path, tmp_path / "none")
    assert physical > 1 << 26


def test_the_lowest_limit_of_the_groups_around_a_process_holds(tmp_path: Path) -> None:
    groups = own(tmp_path, "0::/slice/service\n")
    limit(tmp_path, "slice/service/memory.max", "max\n")
    limit(tmp_path, "slice/memory.max", f"{1 << 25}\n")
    limit(tmp_path, "other/memory.max", "4096\n")
    assert available_memory(tmp_path / "fs", groups) == 1 << 25


def test_in_a_container_the_group_is_mounted_as_the_root(tmp_path: Path) -> None:
    groups = own(tmp_path, "0::/\n")
    limit(tmp_path, "memory.max", f"{1 << 24}\n")
    assert available_memory(tmp_path / "fs", groups) == 1 << 24


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    groups = own(tmp_path, "7:blkio:/x\n4:cpu,memory:/docker/abc\n")
    limit(tmp_path, "memory/memory.limit_in_bytes", f"{1 << 23}\n")
    assert available_memory(tmp_path / "fs", groups) == 1 << 23


@pytest.mark.parametrize(
    ("memory", "workers", "share"),
    [(GIB, 1, GIB // 4), (64 * GIB, 1, 2 * GIB), (64 * GIB, 4, GIB // 2), (1 << 20, 1, 1 << 24)],
)
def test_clients_have_a_quarter_up_to_two_gibibytes(memory: int, workers: int, share: int) -> None:
    assert default_client_memory(memory, workers) == share


def test_the_setting_is_bytes_or_the_default_or_no_bound() -> None:
    assert client_memory(Config(queued_max_request_bytes=12_345)).limit == 12_345
    assert client_memory(Config(queued_max_request_bytes=-1)).limit == UNLIMITED
    assert 1 << 24 <= client_memory(Config()).limit <= 2 * GIB
