"""Stories the simulation has told: scripts that once broke a rule, as short as they were found.

Each is played with its bug planted again, too: a story that no longer leads there says nothing.
"""

from unittest.mock import patch

import pytest

from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.tenure import Tenure
from tests.simulation.run import play
from tests.simulation.script import Act, Script, Setup, Step

pytestmark = pytest.mark.sim


def test_group_that_comes_back_just_when_its_end_is_durable_is_not_forgotten() -> None:
    """A commit was acknowledged and not found again until the next load.

    The sweep ends a group; a read waits for the tombstones, and behind it, on the same
    connection, a commit. The group was forgotten once for each of the two held things, and the
    second time it was the new group of the same id.
    """
    story = Script(
        Setup(groups=3, topic_partitions=1, retention_ms=20_000, kinds=(0,)),
        [
            Step(Act.LIVE, 0, 2),
            Step(Act.KILL, 0),
            Step(Act.ARRIVE, 1),
            Step(Act.TIME, 6, 6),
            Step(Act.TIME, 7, 7),
            Step(Act.TIME, 4, 4),
            Step(Act.LIVE, 0, 2),
            Step(Act.LIVE, 3, 2),
            Step(Act.NUDGE, 4, 6),
        ],
    )

    def forget(self: Tenure, actor: GroupActor) -> None:
        if actor.is_idle and not self.writer.holds_back(actor):
            actor.stop()
            self.actors.pop(actor.group.group_id, None)

    with patch.object(Tenure, "forget", forget):
        assert "fetched -1" in play(story).broken
    assert play(story).broken == ""
