"""The commands that a refused start names lead to a start that is not refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_server.cli.main import app
from tests.damage.check import Finding, Outcome, look, verified
from tests.damage.mutations import Damaged
from tests.damage.templates import TEMPLATES, Made, make

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    return {
        template.name: make(template, tmp_path_factory.mktemp(template.name), seed=5)
        for template in TEMPLATES
        if template.name in ("stopped", "killed")
    }


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["log", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


async def start(data: Path, made: Made) -> Finding:
    return await look(data, made.settings(), made.acknowledged, Damaged("", "", data, ""))


def without(name: str) -> Callable[[Path], None]:
    def remove(data: Path) -> None:
        (data / name).unlink()

    return remove


def flipped(name: str, position: int) -> Callable[[Path], None]:
    def flip(data: Path) -> None:
        content = bytearray((data / name).read_bytes())
        content[position] ^= 1
        (data / name).write_bytes(content)

    return flip


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        without("meta.properties"),
        flipped("meta.properties", 30),
        without("coordinator-starts"),
        flipped("coordinator-starts", 0),
        without("topics.json"),
        flipped("topics.json", 100),
        without("__consumer_offsets-1/partition.metadata"),
        flipped("__consumer_offsets-1/partition.metadata", 28),
    ],
)
@pytest.mark.parametrize("name", ["stopped", "killed"])
async def test_files_made_anew_cost_nothing(
    made: dict[str, Made], name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(made[name].path, data)
    assert verified(data) == []
    damage(data)
    assert verified(data) != []
    finding = await start(data, made[name])
    assert finding.outcome in (Outcome.REFUSED, Outcome.FAILED)
    assert any("coordinator-server log repair-files --dry-run --data" in s for s in finding.said)
    options = ["--cluster-id", CLUSTER_ID, "--data", data]
    assert "nothing was changed" in run("repair-files", "--dry-run", *options)
    run("repair-files", "--yes", *options)
    assert run("repair-files", "--dry-run", *options) == "nothing is missing or damaged\n"
    assert verified(data) == []
    assert (await start(data, made[name])).outcome is Outcome.WHOLE


def without_middle_segment(data: Path) -> None:
    sorted((data / "__consumer_offsets-2").glob("*.log"))[1].unlink()


def without_first_segment(data: Path) -> None:
    min((data / "__consumer_offsets-2").glob("*.log")).unlink()


def without_last_segment(data: Path) -> None:
    max((data / "__consumer_offsets-2").glob("*.log")).unlink()


def without_partition(data: Path) -> None:
    shutil.rmtree(data / "__consumer_offsets-2")


def with_damaged_journal(data: Path) -> None:
    for journal in data.glob(".coordinator-journal-*"):
        journal.write_bytes(bytes(journal.stat().st_size))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("stopped", without_first_segment),
        ("stopped", without_middle_segment),
        ("stopped", without_last_segment),
        ("stopped", without_partition),
        ("killed", without_partition),
        ("killed", with_damaged_journal),
    ],
)
async def test_a_loss_that_is_accepted_keeps_nothing_from_starting(
    made: dict[str, Made], name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(made[name].path, data)
    damage(data)
    assert verified(data) != []
    finding = await start(data, made[name])
    assert finding.outcome is Outcome.FAILED
    assert any("coordinator-server log checkpoint --accept-loss --data" in s for s in finding.said)
    run("checkpoint", "--accept-loss", "--data", data)
    assert verified(data) == []
    # Older answers, as somebody has accepted; no errors.
    assert (await start(data, made[name])).outcome in (Outcome.STALE, Outcome.WHOLE)
