"""What every event does in every state of a group, as data.

`TABLE` decides nothing: it declares what the group does. `docs/states.md` is printed from it, and
tests/unit/group/test_states.py drives a group into each situation and compares; a pair that is
missing is an error. It is for people, and for whoever wants to check a coordinator against it.
"""

from typing import Final

from coordinator_server.group.classic.table.administration import ADMINISTRATION
from coordinator_server.group.classic.table.joining import JOINING
from coordinator_server.group.classic.table.membership import HEARTBEATS, LEAVING, SYNCING
from coordinator_server.group.classic.table.model import Answer, Entry, Row, Situation, Written
from coordinator_server.group.classic.table.offsets import COMMITS, GROUPS, OFFSETS
from coordinator_server.group.classic.table.passing import TENURE, TIME

__all__ = ["TABLE", "Answer", "Entry", "Row", "Situation", "Written"]

TABLE: Final[tuple[Row, ...]] = (
    *JOINING,
    *SYNCING,
    *HEARTBEATS,
    *LEAVING,
    *COMMITS,
    *OFFSETS,
    *GROUPS,
    *ADMINISTRATION,
    *TIME,
    *TENURE,
)
"""In the order of the events' lives."""
