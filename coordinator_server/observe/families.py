"""Names, kinds, labels and help texts of all metrics, including those named as in other exporters.

Labels never contain member ids, client ids or free text. Group ids are labels only in the series
that `metrics.groups.allow` enables; all other labels have a closed set of values.
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
    "offsets": Family("gauge", "Committed offsets in memory."),
    "rebalances_total": Family(
        "counter", "Rebalances that ended, by the reason that started them.", ("reason",)
    ),
    "rebalances_ended_total": Family("counter", "Rebalances that ended, by outcome.", ("outcome",)),
    "rebalances_completed_total": Family(
        "counter", "Rebalances that ended with members and an assignment."
    ),
    "rebalances_failed_total": Family(
        "counter", "Failed attempts at a rebalance, by cause.", ("error",)
    ),
    "rebalance_duration_seconds": Family(
        "histogram", "Duration of rebalances, by phase; total is join plus sync.", ("phase",)
    ),
    "rebalances_in_progress": Family("gauge", "Rebalances in progress."),
    "waiting_members": Family(
        "gauge",
        "Members that groups wait for: not rejoined, not synced, or with an unused member id.",
        ("phase",),
    ),
    "findings": Family(
        "gauge",
        "Flapping members and groups with a rebalance storm, within "
        "`rebalance.flapping.window.ms`.",
        ("kind", "likely_cause"),
    ),
    "oldest_rebalance_age_seconds": Family(
        "gauge", "Age of the oldest rebalance in progress; 0 without one."
    ),
    "member_removals_total": Family(
        "counter", "Members and pending member ids that left or were removed.", ("reason",)
    ),
    "requests_total": Family("counter", "Requests answered, by error.", ("api", "error")),
    "request_duration_seconds": Family(
        "histogram", "Time from the arrival of a request to its response.", ("api",)
    ),
    "refusals_total": Family("counter", "Requests that a group refused, by rule.", ("rule",)),
    "frames_refused_total": Family(
        "counter",
        "Frames that were not valid requests; each one closed its connection.",
        ("reason",),
    ),
    "connections": Family("gauge", "Open connections of Kafka clients."),
    "connections_accepted_total": Family("counter", "Connections accepted."),
    "connections_closed_total": Family(
        "counter", "Connections that the server closed.", ("reason",)
    ),
    "received_bytes_total": Family("counter", "Bytes received from Kafka clients."),
    "sent_bytes_total": Family("counter", "Bytes sent to Kafka clients."),
    "client_memory_bytes": Family(
        "gauge",
        "Memory of client data: requests being received or in progress, and unread responses.",
    ),
    "client_memory_limit_bytes": Family(
        "gauge",
        "Limit of the memory of client data (`queued.max.request.bytes`); +Inf without a limit.",
    ),
    "client_memory_waiting_connections": Family(
        "gauge", "Connections that wait for free memory of client data."
    ),
    "offset_commits_total": Family("counter", "Offsets committed, counted per partition."),
    "offsets_removed_total": Family(
        "counter", "Committed offsets removed, by reason.", ("reason",)
    ),
    "offset_expirations_total": Family("counter", "Committed offsets that expired."),
    "offset_deletions_total": Family(
        "counter", "Committed offsets deleted, directly or with their topic."
    ),
    "pending_transactional_offsets": Family(
        "gauge", "Offsets of transactions that have not ended."
    ),
    "oldest_pending_transaction_age_seconds": Family(
        "gauge", "Age of the oldest offset of an open transaction; 0 without one."
    ),
    "expiry_sweeps_skipped_total": Family(
        "counter", "Expiry sweeps skipped because the wall clock had jumped."
    ),
    "log_append_duration_seconds": Family(
        "histogram", "Time from an append to the log until the records are durable."
    ),
    "log_bytes": Family("gauge", "Bytes of the coordinator's log.", ("partition",)),
    "log_dirty_bytes": Family(
        "gauge",
        "Bytes in closed segments of the coordinator's log that are not compacted yet.",
        ("partition",),
    ),
    "log_dirty_ratio": Family(
        "gauge",
        "Share of uncompacted bytes in the closed segments of the dirtiest partition, from 0 to 1.",
    ),
    "log_compaction_idle_seconds": Family(
        "gauge", "Time since the last compaction of a partition, or since the start."
    ),
    "log_compactions_total": Family(
        "counter", "Compactions of partitions of the coordinator's log."
    ),
    "log_compaction_duration_seconds": Family(
        "histogram", "Duration of compactions, including the pauses that limit their I/O."
    ),
    "storage_damage_total": Family(
        "counter",
        "Damaged or lost files found in the data directory, by log event.",
        ("event",),
    ),
    "topic_files_open": Family("gauge", "Open segment files of topics."),
    "topic_files_limit": Family(
        "gauge",
        "Most open segment files of topics; above it the least recently used one is closed.",
    ),
    "unwritten_bytes": Family(
        "gauge",
        "Bytes in the journal or in memory that are not yet written to segments.",
    ),
    "partitions": Family("gauge", "Partitions of the coordinator's log.", ("state",)),
    "partition_load_duration_seconds": Family(
        "histogram", "Duration of loading a partition of the coordinator's log."
    ),
    "partition_load_remaining_bytes": Family(
        "gauge", "Bytes not yet read of the partitions that are loading."
    ),
    "event_queue_size": Family("gauge", "Requests and timers in the mailboxes of all groups."),
    "event_loop_lag_seconds": Family("histogram", "Delay of a timer that is due every 20 ms."),
    "event_loop_lag_max_seconds": Family(
        "gauge", "Longest delay of that timer since the last scrape."
    ),
    "partition_failures_total": Family(
        "counter", "Times that a served partition had to be loaded again."
    ),
    "partition_stalls_total": Family(
        "counter", "Partition failures in which requests waited and none was answered."
    ),
    "task_failures_total": Family(
        "counter", "Failures of long-lived tasks of the server.", ("task",)
    ),
    "process_paused_seconds_total": Family(
        "counter", "Time in which the whole process was stopped; deadlines do not include it."
    ),
    "groups_limit": Family("gauge", "Limit of the number of groups (`group.max.groups`)."),
    "memory_estimate_bytes": Family(
        "gauge",
        "Estimated memory of groups, members (with metadata and assignments) and committed "
        "offsets.",
        ("kind",),
    ),
    "observer_failures_total": Family(
        "counter", "Failures of the log, the metrics or the timeline to process an event."
    ),
    "build_info": Family("gauge", "Always 1.", ("version",)),
}


GROUP_FAMILIES: dict[str, Family] = {
    "group_rebalances_total": Family(
        "counter",
        "Rebalances of a group since the start, by reason; reasons with 0 have no series.",
        ("group", "reason"),
    ),
    "group_generation": Family("gauge", "The generation of a group.", ("group",)),
    "group_state": Family(
        "gauge", "1 for the current state of a group, else 0.", ("group", "state")
    ),
    "group_last_rebalance_timestamp_seconds": Family(
        "gauge", "Time of the end of the last rebalance of a group.", ("group",)
    ),
    "group_waiting_members": Family(
        "gauge",
        "Members that a group waits for: not rejoined, not synced, or with an unused member id.",
        ("group", "phase"),
    ),
    "group_offsets_expire_timestamp_seconds": Family(
        "gauge",
        "Time when the first offset of a group expires if the group remains unused.",
        ("group",),
    ),
}
"""Series of single groups that `metrics.groups.allow` selects."""

SUPERVISOR_FAMILIES: dict[str, Family] = {
    "workers": Family("gauge", "Worker processes.", ("state",)),
    "worker_restarts_total": Family("counter", "Restarts of workers after they ended."),
}
"""Only with several workers."""

LEFT_OUT = Family(
    "gauge", "Groups and topics without series because there are too many.", ("kind",)
)
"""`series_left_out`: groups and topics above `metrics.groups.max.series`."""

EXPORTER_FAMILIES: dict[str, Family] = {
    "kafka_brokers": Family("gauge", "Nodes of the cluster."),
    "kafka_topic_partitions": Family("gauge", "Partitions of a topic.", ("topic",)),
    "kafka_topic_partition_current_offset": Family(
        "gauge", "End offset of a partition, if it is known.", ("topic", "partition")
    ),
    "kafka_consumergroup_members": Family("gauge", "Members of a group.", ("consumergroup",)),
    "kafka_consumergroup_group_state": Family(
        "gauge", "1 for the current state of a group, else 0.", ("consumergroup", "state")
    ),
    "kafka_consumergroup_current_offset": Family(
        "gauge",
        "A committed offset, also of Empty groups.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_current_offset_sum": Family(
        "gauge", "Sum over the partitions of a topic.", ("consumergroup", "topic")
    ),
    "kafka_consumergroup_lag": Family(
        "gauge",
        "Distance of a committed offset to the end of its partition, if that is known.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_lag_sum": Family(
        "gauge", "Sum over the partitions of a topic.", ("consumergroup", "topic")
    ),
}
"""Names of kafka_exporter (`metrics.aliases=kafka_exporter`)."""

_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR = "kafka_server_group_coordinator_metrics_"

JMX_FAMILIES: dict[str, Family] = {
    f"{_MANAGER}numgroups": Family("gauge", "Groups."),
    f"{_MANAGER}numgroupspreparingrebalance": Family("gauge", "Groups in PreparingRebalance."),
    f"{_MANAGER}numgroupscompletingrebalance": Family("gauge", "Groups in CompletingRebalance."),
    f"{_MANAGER}numgroupsstable": Family("gauge", "Groups in Stable."),
    f"{_MANAGER}numgroupsdead": Family("gauge", "Always 0: deleted groups are removed at once."),
    f"{_MANAGER}numgroupsempty": Family("gauge", "Groups in Empty."),
    f"{_MANAGER}numoffsets": Family("gauge", "Committed offsets in memory."),
    f"{_COORDINATOR}group_completed_rebalance_count": Family(
        "untyped", "Rebalances that ended with members and an assignment."
    ),
    f"{_COORDINATOR}offset_commit_count": Family("untyped", "Offsets committed."),
    f"{_COORDINATOR}offset_expiration_count": Family("untyped", "Offsets that expired."),
    f"{_COORDINATOR}offset_deletion_count": Family("untyped", "Offsets that were deleted."),
    f"{_COORDINATOR}num_partitions": Family(
        "gauge", "Partitions of the coordinator's log.", ("state",)
    ),
    f"{_COORDINATOR}event_queue_size": Family("gauge", "Events in the mailboxes of all groups."),
}
"""Names of Kafka's metrics in the JMX exporter (`metrics.aliases=jmx`)."""

GROUP_STATES: Sequence[str] = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty")
"""The visible states of a classic group."""
