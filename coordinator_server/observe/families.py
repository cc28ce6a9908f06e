"""The metrics as documented: their names, kinds and labels, here and under the names of others.

Member ids, client ids and free text are never labels, and a group is one only where that was asked
for; every other label comes from a closed set.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

PREFIX = "kafka_group_coordinator_"


class Family(NamedTuple):
    """A metric as documented in `docs/metrics.md`."""

    kind: Literal["counter", "gauge", "histogram", "untyped"]
    help: str
    labels: tuple[str, ...] = ()


FAMILIES: dict[str, Family] = {
    "groups": Family("gauge", "Groups.", ("state", "protocol_type")),
    "members": Family("gauge", "Members of groups; pending ids have not joined yet.", ("kind",)),
    "offsets": Family("gauge", "Committed offsets that are kept."),
    "rebalances_total": Family(
        "counter", "Rebalances that ended, by what began them.", ("reason",)
    ),
    "rebalances_ended_total": Family(
        "counter", "Rebalances that ended, by how they ended.", ("outcome",)
    ),
    "rebalances_completed_total": Family(
        "counter", "Rebalances that ended with members and an assignment for them."
    ),
    "rebalances_failed_total": Family(
        "counter", "Attempts at a rebalance that came to nothing, by why.", ("error",)
    ),
    "rebalance_duration_seconds": Family(
        "histogram", "How long rebalances took, by phase; total is join and sync.", ("phase",)
    ),
    "rebalances_in_progress": Family("gauge", "Rebalances under way."),
    "waiting_members": Family(
        "gauge",
        "Whom groups wait for: members that have not joined or synced, unused member ids.",
        ("phase",),
    ),
    "findings": Family(
        "gauge",
        "Members that flap, and groups in a storm, within `rebalance.flapping.window.ms`.",
        ("kind", "likely_cause"),
    ),
    "oldest_rebalance_age_seconds": Family(
        "gauge", "Age of the oldest rebalance under way, 0 without one."
    ),
    "member_removals_total": Family(
        "counter", "Members and pending ids that are gone.", ("reason",)
    ),
    "requests_total": Family("counter", "Requests answered, by their error.", ("api", "error")),
    "request_duration_seconds": Family(
        "histogram", "From a request's arrival to its answer.", ("api",)
    ),
    "refusals_total": Family(
        "counter", "Requests that a group refused, by the rule that did.", ("rule",)
    ),
    "frames_refused_total": Family(
        "counter", "Frames that were no request and closed their connection.", ("reason",)
    ),
    "connections": Family("gauge", "Open connections of Kafka clients."),
    "connections_accepted_total": Family("counter", "Connections accepted."),
    "connections_closed_total": Family("counter", "Connections this server closed.", ("reason",)),
    "received_bytes_total": Family("counter", "Bytes received from Kafka clients."),
    "sent_bytes_total": Family("counter", "Bytes sent to Kafka clients."),
    "client_memory_bytes": Family(
        "gauge", "Memory of client data: requests that come or are in progress, unread responses."
    ),
    "client_memory_limit_bytes": Family(
        "gauge", "What it may be at most (`queued.max.request.bytes`); +Inf without a bound."
    ),
    "client_memory_waiting_connections": Family(
        "gauge", "Connections that are not read until some of that memory is free."
    ),
    "offset_commits_total": Family("counter", "Offsets committed, one per partition."),
    "offsets_removed_total": Family(
        "counter", "Committed offsets that are gone, by why.", ("reason",)
    ),
    "offset_expirations_total": Family("counter", "Committed offsets that expired."),
    "offset_deletions_total": Family(
        "counter", "Committed offsets that were deleted, or their topic was."
    ),
    "pending_transactional_offsets": Family(
        "gauge", "Offsets that wait for the end of their transaction."
    ),
    "oldest_pending_transaction_age_seconds": Family(
        "gauge", "Age of the oldest of those, 0 without one."
    ),
    "expiry_sweeps_skipped_total": Family(
        "counter", "Expiry sweeps left out because the wall clock had just jumped."
    ),
    "log_append_duration_seconds": Family(
        "histogram", "From handing records to the log until they are durable."
    ),
    "log_bytes": Family("gauge", "Bytes of the coordinator's log.", ("partition",)),
    "log_dirty_bytes": Family(
        "gauge", "Bytes of its closed segments that were not compacted yet.", ("partition",)
    ),
    "log_dirty_ratio": Family(
        "gauge", "Share of those in the closed segments of the dirtiest partition, from 0 to 1."
    ),
    "log_compaction_idle_seconds": Family(
        "gauge", "Since the last compaction of a partition, or the start."
    ),
    "log_compactions_total": Family("counter", "Compactions of a partition of the log."),
    "log_compaction_duration_seconds": Family(
        "histogram", "How long compactions took, most of it waiting so as not to disturb."
    ),
    "storage_damage_total": Family(
        "counter",
        "Times damaged or lost files of the data directory were found, by the line of the log.",
        ("event",),
    ),
    "topic_files_open": Family("gauge", "Segments of topics that are open."),
    "topic_files_limit": Family(
        "gauge", "How many may be open at once; the one that was used least recently is closed."
    ),
    "unwritten_bytes": Family(
        "gauge",
        "Bytes that are in the journal or in memory, and that the segments of all logs still lack.",
    ),
    "partitions": Family("gauge", "Partitions of the coordinator's log.", ("state",)),
    "partition_load_duration_seconds": Family(
        "histogram", "How long loading a partition of the log took."
    ),
    "partition_load_remaining_bytes": Family(
        "gauge", "Bytes still to be read of the partitions that are being loaded."
    ),
    "event_queue_size": Family(
        "gauge", "Requests and timers that wait for their turn, in all groups."
    ),
    "event_loop_lag_seconds": Family(
        "histogram", "How late a timer rings that is set for every 20 ms."
    ),
    "event_loop_lag_max_seconds": Family("gauge", "The longest of those since the last scrape."),
    "partition_failures_total": Family(
        "counter", "Times a partition that was served had to be loaded anew."
    ),
    "partition_stalls_total": Family(
        "counter", "Those of them in which requests waited and none was answered."
    ),
    "task_failures_total": Family(
        "counter", "Times a long-lived task of the server has failed.", ("task",)
    ),
    "process_paused_seconds_total": Family(
        "counter", "Time in which the whole process stood still; deadlines leave it out."
    ),
    "groups_limit": Family("gauge", "How many groups `group.max.groups` allows."),
    "memory_estimate_bytes": Family(
        "gauge",
        "What is kept for clients, estimated: of groups, members (metadata and assignments "
        "included) and committed offsets.",
        ("kind",),
    ),
    "observer_failures_total": Family(
        "counter", "Times the log, the metrics or the timeline failed to take an event."
    ),
    "build_info": Family("gauge", "Always 1.", ("version",)),
}


GROUP_FAMILIES: dict[str, Family] = {
    "group_rebalances_total": Family(
        "counter",
        "Rebalances of a group since the start, by what began them; there is none at 0.",
        ("group", "reason"),
    ),
    "group_generation": Family("gauge", "The generation of a group.", ("group",)),
    "group_state": Family("gauge", "1 for the state a group is in, else 0.", ("group", "state")),
    "group_last_rebalance_timestamp_seconds": Family(
        "gauge", "When the last rebalance of a group ended.", ("group",)
    ),
    "group_waiting_members": Family(
        "gauge",
        "Whom a group waits for: members that have not joined or synced, unused member ids.",
        ("group", "phase"),
    ),
    "group_offsets_expire_timestamp_seconds": Family(
        "gauge", "When the first offset of a group expires if nobody comes.", ("group",)
    ),
}
"""Series of single groups; only those of `metrics.groups.allow` have them."""

SUPERVISOR_FAMILIES: dict[str, Family] = {
    "workers": Family("gauge", "Worker processes.", ("state",)),
    "worker_restarts_total": Family("counter", "Times a worker had ended and was started again."),
}
"""Only where there are several workers."""

LEFT_OUT = Family(
    "gauge", "Groups and topics that have no series because there are too many.", ("kind",)
)
"""`series_left_out`: what `metrics.groups.max.series` kept back."""

EXPORTER_FAMILIES: dict[str, Family] = {
    "kafka_brokers": Family("gauge", "Nodes of the cluster."),
    "kafka_topic_partitions": Family("gauge", "Partitions of a topic.", ("topic",)),
    "kafka_topic_partition_current_offset": Family(
        "gauge", "Where a partition ends; where that is known.", ("topic", "partition")
    ),
    "kafka_consumergroup_members": Family("gauge", "Members of a group.", ("consumergroup",)),
    "kafka_consumergroup_group_state": Family(
        "gauge", "1 for the state a group is in, else 0.", ("consumergroup", "state")
    ),
    "kafka_consumergroup_current_offset": Family(
        "gauge", "A committed offset, of Empty groups too.", ("consumergroup", "topic", "partition")
    ),
    "kafka_consumergroup_current_offset_sum": Family(
        "gauge", "The same, summed up.", ("consumergroup", "topic")
    ),
    "kafka_consumergroup_lag": Family(
        "gauge",
        "How far it is behind the end of the partition; where that is known.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_lag_sum": Family(
        "gauge", "The same, summed up.", ("consumergroup", "topic")
    ),
}
"""As kafka_exporter names them (`metrics.aliases=kafka_exporter`)."""

_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR = "kafka_server_group_coordinator_metrics_"

JMX_FAMILIES: dict[str, Family] = {
    f"{_MANAGER}numgroups": Family("gauge", "Groups."),
    f"{_MANAGER}numgroupspreparingrebalance": Family("gauge", "Groups that wait for joins."),
    f"{_MANAGER}numgroupscompletingrebalance": Family("gauge", "Groups that wait for a plan."),
    f"{_MANAGER}numgroupsstable": Family("gauge", "Groups at work."),
    f"{_MANAGER}numgroupsdead": Family("gauge", "Always 0: groups that end are gone at once."),
    f"{_MANAGER}numgroupsempty": Family("gauge", "Groups without members."),
    f"{_MANAGER}numoffsets": Family("gauge", "Committed offsets that are kept."),
    f"{_COORDINATOR}group_completed_rebalance_count": Family(
        "untyped", "Rebalances that ended with members and an assignment for them."
    ),
    f"{_COORDINATOR}offset_commit_count": Family("untyped", "Offsets committed."),
    f"{_COORDINATOR}offset_expiration_count": Family("untyped", "Offsets that expired."),
    f"{_COORDINATOR}offset_deletion_count": Family("untyped", "Offsets that were deleted."),
    f"{_COORDINATOR}num_partitions": Family(
        "gauge", "Partitions of the coordinator's log.", ("state",)
    ),
    f"{_COORDINATOR}event_queue_size": Family("gauge", "Events that wait for their turn."),
}
"""As the JMX exporter names Kafka's own (`metrics.aliases=jmx`)."""

GROUP_STATES: Sequence[str] = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty")
"""The states of a classic group in which anybody can see it."""
