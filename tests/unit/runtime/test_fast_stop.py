"""A planned stop leaves groups alone that have nothing to end."""

from unittest.mock import patch

import pytest

from coordinator_server.runtime.actor import GroupActor
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable

OFFSETS_ONLY = 50


@pytest.mark.interpreted
async def test_groups_without_members_cost_a_stop_nothing(office: Office) -> None:
    for number in range(OFFSETS_ONLY):
        office.group(f"offsets-{number}").commit()
    await stable(office, "members", session=60_000)
    await settle()
    assert len(office.tenure.actors) == OFFSETS_ONLY + 1
    stopped: list[str] = []
    stop = GroupActor.stop

    def noting(actor: GroupActor) -> object:
        stopped.append(actor.group.group_id)
        return stop(actor)

    with patch.object(GroupActor, "stop", noting):
        await office.partition.stop()
    assert set(stopped) == {"members"}
