"""How a finished rebalance gets into the log: headers on the group's record, and its own record.

Whoever does not know them ignores them: headers are not part of a record's key and value, and
Kafka skips record types it does not know.
"""

from typing import Final

from coordinator_server.group.context import RECORD_OVERHEAD
from coordinator_server.group.effects import Headers
from coordinator_server.group.reasons import RebalanceEvent
from protocol.history import MAX_HISTORY_BYTES, RebalanceHistoryKey, cut_text

MAX_HEADER_BYTES: Final = 1_024
"""Names and values of all headers of a record together; every text is cut so that this holds."""


def story_bytes(group_id: str) -> int:
    """More than the story of a rebalance takes in the log, beside the group's record."""
    return MAX_HEADER_BYTES + MAX_HISTORY_BYTES + RECORD_OVERHEAD + 4 * len(group_id)


def history_key(event: RebalanceEvent) -> RebalanceHistoryKey:
    """Under what the log has a rebalance."""
    return RebalanceHistoryKey(event.group_id, event.generation_after, event.sequence)


def headers(event: RebalanceEvent) -> Headers:
    """What the group's record says of the rebalance that it closes, as text in UTF-8."""
    culprit = event.culprit
    reason: str = event.reason
    outcome: str = event.outcome
    told = [
        ("rb.reason", reason.encode()),
        ("rb.outcome", outcome.encode()),
        ("rb.member", cut_text(culprit.member_id, 255)),
        ("rb.client", cut_text(culprit.client_id, 100)),
        ("rb.host", cut_text(culprit.client_host, 64)),
        ("rb.start", b"%d" % event.started_ms),
        ("rb.join_end", b"%d" % (event.started_ms + event.join_phase_ms)),
        ("rb.end", b"%d" % event.ended_ms),
        ("rb.prev_gen", b"%d" % event.generation_before),
        ("rb.prev_state", event.state_before.encode()),
        ("rb.sequence", b"%d" % event.sequence),
        ("rb.members_before", b"%d" % event.members_before),
    ]
    if culprit.group_instance_id is not None:
        told.append(("rb.instance", cut_text(culprit.group_instance_id, 100)))
    if event.client_reason:
        told.append(("rb.client_reason", cut_text(event.client_reason, 160)))
    joined, left, evicted, _, _ = event.counts
    if joined:
        told.append(("rb.joined", b"%d" % joined))
    if left:
        told.append(("rb.left", b"%d" % left))
    if evicted:
        told.append(("rb.evicted", b"%d" % evicted))
    return tuple(told)
