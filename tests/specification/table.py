"""The specification of classic groups: the outcome of every event in every situation, as data.

`tools/states_page.py` prints docs/states.md from it. tests/unit/group/test_states.py brings a group
into each situation and compares the outcome; a missing pair of event and situation is an error.
"""

from typing import Final

from tests.specification.administration import ADMINISTRATION
from tests.specification.joining import JOINING
from tests.specification.membership import HEARTBEATS, LEAVING, SYNCING
from tests.specification.model import Answer, Entry, Row, Situation, Written
from tests.specification.offsets import COMMITS, GROUPS, OFFSETS
from tests.specification.time_and_tenure import TENURE, TIME

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
