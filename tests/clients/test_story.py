"""Every way to say why a group rebalanced says what really happened, with real clients.

`python -m tests.clients.story` prints the table; docs/story.md shows it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.conftest import unavailable
from tests.clients.story.scenes import SCENES, SETTINGS, play, sarama_members
from tests.clients.story.script import Scene, Story
from tests.clients.story.surfaces import CHROMIUM, costs, read_all
from tests.clients.story.table import disagreements, lines, markdown
from tests.support.server import EXTERNAL, ServerProcess

SURFACES = ["log line", "record header", "history record", "HTTP API", "page", "CLI"]


def tell(folder: Path, scenes: dict[str, Callable[[Scene], None]]) -> None:
    if os.environ.get(EXTERNAL):
        pytest.skip(f"{EXTERNAL} is set: only a server of our own says why")
    if CHROMIUM is None:
        unavailable("the page needs Chromium: no `chromium` in PATH")
    with ServerProcess(folder / "server", SETTINGS) as server:
        story = Story(server)
        play(story, scenes, folder / "clients")
        wrong = costs(story)
        findings = story.get("/api/groups")["findings"]
        told = read_all(story)
        assert not server.bugs(), server.bugs()[:5]
    made = lines(story, told)
    assert list(told) == SURFACES
    assert not disagreements(made), "\n" + "\n".join(markdown(made))
    assert not wrong, "\n".join(wrong)
    storms = {
        finding["group"]: finding["likely_cause"]
        for finding in findings
        if finding["kind"] == "rebalance_storm"
    }
    assert storms == ({"workers": "restart"} if "workers" in scenes else {})


def test_every_surface_tells_reason_and_culprit_of_each_rebalance_as_the_script_has_them(
    tmp_path: Path,
) -> None:
    tell(tmp_path, SCENES)


@pytest.mark.slow
def test_every_surface_tells_the_same_of_sarama_members(
    tmp_path: Path, sarama_program: Path
) -> None:
    tell(tmp_path, {"sarama": sarama_members(sarama_program)})
