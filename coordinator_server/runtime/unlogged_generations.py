"""Generations that members know and the log of their partition does not, between tenures."""

from collections.abc import Mapping

from coordinator_server.group.group import Group
from coordinator_server.runtime.actor import GroupActor


class SpentGenerations:
    """The last generation of each group whose record was not durable when a tenure ended.

    The group goes on behind it: another generation of the same number would take a SyncGroup that
    was sent for the lost one. A process that begins does not know, as in Kafka.
    """

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}

    def of(self, group_id: str) -> int:
        """The generation behind which a loaded group goes on; 0 if the log has the last one."""
        return self._spent.get(group_id, 0)

    def loaded(self, groups: Mapping[str, Group]) -> None:
        """Forget what the log has after all, and groups that are gone: others begin at 1."""
        self._spent = {
            group_id: spent
            for group_id, spent in self._spent.items()
            if group_id in groups and spent > _durable(groups[group_id])
        }

    def ended(self, actors: Mapping[str, GroupActor]) -> None:
        """A tenure ends: before anything of it is taken apart."""
        self._spent = {
            group_id: spent
            for group_id, actor in actors.items()
            if not _has_written(actor)
            and (spent := max(self.of(group_id), actor.group.last_generation))
        }


def _durable(group: Group) -> int:
    return 0 if group.durable is None else group.durable.generation


def _has_written(actor: GroupActor) -> bool:
    """Whether the log has the last generation of the group, or that there is no group."""
    kind = actor.group.kind
    if actor.group.durable is not None or not actor.is_settled:
        return False
    return kind is None or kind.has_logged_generation
