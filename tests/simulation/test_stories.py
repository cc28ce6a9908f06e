"""Stories the simulation has told: scripts that once broke a rule, as short as they were found.

Each is played with its bug planted again, too: a story that no longer leads there says nothing.
"""

from unittest.mock import PropertyMock, patch

import pytest

from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.tenure import Tenure
from tests.simulation.consumer import Consumer
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


def test_a_group_is_not_settled_while_one_of_its_members_means_to_join_again() -> None:
    """The simulation was wrong here, not the coordinator: "never answered".

    A busy leader hears of a rebalance and will join in a while. The rebalance is lost with a failed
    append; the group is loaded Stable, and taken to have settled. The leader's JoinGroup fell into
    the second after the last power cut, which is shorter than the other member's heartbeats.
    """
    story = Script(
        Setup(topic_partitions=4, group_max_size=2, retention_ms=60_000, kinds=(14, 7_137, 4_220)),
        [
            Step(Act.LIVE, 0, 2),
            Step(Act.NUDGE, 0, 6),
            Step(Act.DELIVER, 0),
            Step(Act.TIME, 0),
            Step(Act.ARRIVE, 0),
            Step(Act.TIME, 0),
            Step(Act.LIVE, 0),
            Step(Act.LIVE, 0),
            Step(Act.TIME, 6, 6),
            Step(Act.LIVE, 2, 3),
            Step(Act.TIME, 5, 5),
        ],
    )
    with patch.object(Consumer, "will_join", PropertyMock(return_value=False)):
        assert "never answered" in play(story).broken
    assert play(story).broken == ""
