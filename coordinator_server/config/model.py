"""The settings: broker properties of Kafka and properties of this server.

An attribute is the property's name with underscores for dots. `tools.generate_docs` writes
`docs/config.md` from this module.
"""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from coordinator_server.config.kinds import (
    BOOLEAN,
    CLUSTER_ID,
    DIRECTORY,
    HOSTS,
    HTTP_ADDRESS,
    INT_MAX,
    LISTENERS,
    MOST_PARTITIONS,
    PATTERN,
    PROTOCOL_MAP,
    TEXT,
    TOPICS,
    DeclaredTopic,
    Kind,
    integer,
    long,
    number,
    one_of,
    some_of,
)
from coordinator_server.config.listeners import (
    SECURITY_PROTOCOLS,
    Address,
    Listener,
)

MAX_WORKERS = 64
"""Most workers of one data directory."""


ALIASES = ("jmx", "kafka_exporter")


def setting(kind: Kind, default: Any, doc: str) -> Any:
    """Define a property with the values it takes, its default and its documentation."""
    return field(default=default, metadata={"kind": kind, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. `load` reads and checks them; `Config()` has the defaults."""

    # Identity and addresses
    node_id: int = setting(integer(ge=0), 1, "The id of this node. `broker.id` is read too.")
    cluster_id: str | None = setting(
        CLUSTER_ID,
        None,
        "The id of the cluster. Without it the first start generates one and stores it with the "
        "data.",
    )
    listeners: tuple[Listener, ...] = setting(
        LISTENERS,
        (Listener("PLAINTEXT", "127.0.0.1", 9092),),
        "Addresses for Kafka clients. An empty host means all interfaces, port 0 a free port. If "
        "only `advertised.listeners` is set, the server listens on its ports on all interfaces.",
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        LISTENERS,
        (),
        "Addresses that clients are told to connect to; by default those of `listeners`.",
    )
    listener_security_protocol_map: tuple[tuple[str, str], ...] = setting(
        PROTOCOL_MAP,
        tuple((name, name) for name in SECURITY_PROTOCOLS),
        "The security protocol of each listener name. Only PLAINTEXT is supported.",
    )
    http_listener: Address | None = setting(
        HTTP_ADDRESS,
        Address("127.0.0.1", 9404),
        "Address of metrics, health checks, the page and the JSON API; an empty value disables "
        "HTTP.",
    )

    http_max_connections: int = setting(
        integer(ge=1),
        500,
        "Most HTTP connections at a time. Above it, a new connection closes the one that has been "
        "idle longest. At most half of them, and at most 256, can be event streams. They do not "
        "count for `max.connections`.",
    )
    http_allowed_hosts: tuple[str, ...] = setting(
        HOSTS,
        (),
        "Names accepted in the Host header of HTTP requests: `*.example.org` for all names below "
        "a name, `*` for all names. Addresses, `localhost`, names without a dot, the advertised "
        "names and the name of this machine are always accepted. Requests with other names are "
        "answered 421, which prevents DNS rebinding.",
    )

    workers: int = setting(
        integer(ge=1, le=MAX_WORKERS),
        1,
        "Processes that share the partitions of the data directory. To clients each one is a "
        "broker; `node.id` and the ports of `listeners` increase from one worker to the next. "
        "With 1 there is a single process.",
    )
    workers_port_step: int = setting(
        integer(ge=1),
        1,
        "Difference between the ports of one worker and the next. Port 0 means a free port for "
        "each.",
    )

    admin_token: str = setting(
        TEXT,
        "",
        "The token for HTTP requests that change groups, sent as `Authorization: Bearer TOKEN`. "
        "Without a token the server refuses all of them.",
    )
    admin_token_file: str = setting(
        TEXT,
        "",
        "A file with that token, which keeps it out of the command line and the environment.",
    )

    # Connections
    socket_request_max_bytes: int = setting(
        integer(ge=1),
        104_857_600,
        "Size of the largest request. The server closes the connection of a larger one.",
    )
    queued_max_request_bytes: int = setting(
        long(ge=-1),
        0,
        "Memory in bytes for the data of all clients: requests being received or in progress, and "
        "unread responses. Above it large requests wait. 0 means a quarter of the memory of the "
        "machine or control group, at most 2 GiB, divided among all workers. -1, Kafka's default, "
        "means no limit. The server refuses a request larger than this.",
    )
    max_connections: int = setting(
        integer(ge=0), INT_MAX, "Most connections at a time on all listeners."
    )
    max_connections_per_ip: int = setting(
        integer(ge=1), INT_MAX, "Most connections at a time from one address."
    )
    connections_max_idle_ms: int = setting(
        long(ge=-1),
        600_000,
        "The server closes a connection without requests for this long; -1 means never.",
    )

    # Data
    log_dirs: Path = setting(
        DIRECTORY, Path("data"), "The data directory, exactly one. `log.dir` is read too."
    )
    log_flush: Literal["commit", "interval", "os"] = setting(
        one_of("commit", "interval", "os"),
        "commit",
        "When records are synced to disk: before the response (`commit`), every "
        "`log.flush.interval.ms` (`interval`), or when the operating system does it (`os`).",
    )
    log_flush_interval_ms: int = setting(
        long(ge=1), 1_000, "Interval of the syncs with `log.flush=interval`."
    )
    log_journal_bytes: int = setting(
        integer(ge=0),
        67_108_864,
        "Size of a journal file. When it is full, the server syncs the logs and reuses the file; "
        "there are two, which grow to this size as needed. 0 disables the journal: the server "
        "then writes the file of every partition, and with `log.flush=commit` syncs it.",
    )
    log_recovery: Literal["strict", "truncate"] = setting(
        one_of("strict", "truncate"),
        "strict",
        "Behaviour of a start when acknowledged records are lost. `strict` does not serve the "
        "affected partitions until they are repaired. `truncate` serves them with the remaining "
        "records and logs what was lost.",
    )
    log_roll_ms: int = setting(
        long(ge=1),
        604_800_000,
        "Longest time between the timestamps of the first and the last record of a segment. "
        "`log.roll.hours` is read too.",
    )
    log_segment_bytes: int = setting(
        integer(ge=1_048_576),
        1_073_741_824,
        "Size of a segment file of a topic.",
    )

    # Compaction of the coordinator's log
    log_cleaner_enable: bool = setting(BOOLEAN, True, "Whether the coordinator's log is compacted.")
    log_cleaner_min_cleanable_ratio: float = setting(
        number("a number from 0 to 1", ge=0.0, le=1.0),
        0.5,
        "Share of new data in the closed segments of a log above which it is compacted.",
    )
    log_cleaner_delete_retention_ms: int = setting(
        long(ge=0),
        86_400_000,
        "How long tombstones remain after a compaction has first found them.",
    )
    log_cleaner_backoff_ms: int = setting(
        long(ge=1), 15_000, "Interval of the checks for logs to compact while there is none."
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        number("a number of at least 1", ge=1.0),
        10_485_760.0,
        "Most bytes per second that compaction reads and writes; Kafka's default is no limit.",
    )

    # Topics
    topics: tuple[DeclaredTopic, ...] = setting(
        TOPICS, (), "Topics to create at the start, with their partitions: `orders:4,payments:2`."
    )
    auto_create_topics_enable: bool = setting(
        BOOLEAN, True, "Whether the server creates topics that clients request."
    )
    auto_create_topics_max: int = setting(
        integer(ge=0),
        10_000,
        "Number of topics from which on none is created automatically; clients get "
        "POLICY_VIOLATION instead. This does not limit CreateTopics.",
    )
    max_partitions_per_topic: int = setting(
        integer(ge=1, le=MOST_PARTITIONS),
        MOST_PARTITIONS,
        "Most partitions of one topic; CreateTopics with more is answered INVALID_PARTITIONS.",
    )
    max_partitions_total: int = setting(
        integer(ge=1),
        200_000,
        "Most partitions of all topics together. Requests that would exceed it are answered "
        "POLICY_VIOLATION. Existing topics are always served.",
    )
    num_partitions: int = setting(
        integer(ge=1, le=MOST_PARTITIONS),
        1,
        "Partitions of a topic that is created without a number of partitions.",
    )
    message_max_bytes: int = setting(
        integer(ge=0), 1_048_588, "Size of the largest record batch of a topic."
    )

    # Offsets
    offsets_topic_num_partitions: int = setting(
        integer(ge=1, le=MOST_PARTITIONS),
        50,
        "Partitions of the coordinator's log. Do not change it once there is data.",
    )
    offsets_topic_segment_bytes: int = setting(
        integer(ge=1), 104_857_600, "Size of a segment file of the coordinator's log."
    )
    offsets_commit_timeout_ms: int = setting(
        integer(ge=1),
        5_000,
        "Longest time of a write of the coordinator; after it the request is answered with an "
        "error.",
    )
    offsets_retention_minutes: int = setting(
        integer(ge=1), 10_080, "How long the server keeps offsets that are no longer in use."
    )
    offsets_retention_check_interval_ms: int = setting(
        long(ge=1), 600_000, "Interval of the checks for expired offsets."
    )
    offset_metadata_max_bytes: int = setting(
        integer(ge=0),
        4_096,
        "Longest metadata of a committed offset, in UTF-16 code units as in Kafka.",
    )

    # Classic groups
    group_min_session_timeout_ms: int = setting(
        integer(ge=0), 6_000, "Shortest session timeout that a member may request."
    )
    group_max_session_timeout_ms: int = setting(
        integer(ge=1), 1_800_000, "Longest session timeout that a member may request."
    )
    group_initial_rebalance_delay_ms: int = setting(
        integer(ge=0),
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
    )
    group_max_size: int = setting(integer(ge=1), INT_MAX, "Most members of one group.")
    group_max_member_metadata_bytes: int = setting(
        integer(ge=1),
        4_194_304,
        "Most bytes of the protocols in one JoinGroup; a larger request is answered "
        "INVALID_REQUEST. Kafka has no such limit; there a group larger than a batch fails when "
        "its leader assigns.",
    )
    group_max_groups: int = setting(
        integer(ge=1),
        1_000_000,
        "Most groups in the memory of a process. Requests that would create another one are "
        "answered COORDINATOR_NOT_AVAILABLE, and clients retry them. Kafka has no such limit.",
    )

    # Rebalance history and findings
    rebalance_history_retention_ms: int = setting(
        long(ge=0),
        604_800_000,
        "How long the log keeps the record of a finished rebalance; 0 writes no records.",
    )
    rebalance_history_max_records: int = setting(
        integer(ge=1), 1_000, "Most finished rebalances of a group in the log."
    )
    rebalance_flapping_window_ms: int = setting(
        long(ge=1),
        600_000,
        "Length of the window in which rebalances are counted to find flapping members.",
    )
    rebalance_flapping_max_rebalances: int = setting(
        integer(ge=1),
        5,
        "A member with more rebalances than this within the window is flapping.",
    )
    rebalance_storm_max_rebalances: int = setting(
        integer(ge=1),
        10,
        "A group with more rebalances than this within the window has a rebalance storm.",
    )

    # Metrics
    metrics_groups_allow: re.Pattern[str] | None = setting(
        PATTERN,
        None,
        "Groups with their own series at `/metrics`: those whose whole id matches, `.*` for all. "
        "Without it no group has any.",
    )
    metrics_groups_deny: re.Pattern[str] | None = setting(
        PATTERN, None, "Groups without their own series although `metrics.groups.allow` matches."
    )
    metrics_groups_max_series: int = setting(
        integer(ge=0),
        10_000,
        "Most series of groups and topics together. Groups get theirs in the order of their ids; "
        "`kafka_group_coordinator_series_left_out` counts the groups and topics without.",
    )
    metrics_aliases: tuple[str, ...] = setting(
        some_of(*ALIASES),
        (),
        "Further names for the metrics: `jmx` for those of the JMX exporter of a broker, "
        "`kafka_exporter` for those of kafka_exporter, for the groups allowed above.",
    )

    # The server's own log
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        one_of("debug", "info", "warning", "error"),
        "info",
        "The lowest level of the lines that are logged.",
    )
    log_format: Literal["auto", "console", "json"] = setting(
        one_of("auto", "console", "json"),
        "auto",
        "Format of the lines; `auto` means console on a terminal and JSON elsewhere.",
    )

    def advertised(self) -> tuple[Listener, ...]:
        """The advertised address of each listener, in the order of `listeners`.

        The default is the listener itself, with this machine's name instead of an empty host.
        Port 0 stays 0: only the code that binds the socket knows the port.
        """
        told = {listener.name: listener for listener in self.advertised_listeners}
        return tuple(
            told.get(own.name) or (own if own.host else own._replace(host=socket.gethostname()))
            for own in self.listeners
        )

    def http_names(self) -> tuple[str, ...]:
        """The host names for HTTP besides those that are always accepted."""
        told = [listener.host for listener in (*self.advertised_listeners, *self.listeners)]
        own = [] if self.http_listener is None else [self.http_listener.host]
        return (*self.http_allowed_hosts, *(host for host in (*own, *told) if host))


class PropertyDefinition(NamedTuple):
    """The definition of a property."""

    attribute: str
    default: Any
    kind: Kind
    doc: str


PROPERTIES: Mapping[str, PropertyDefinition] = {
    each.name.replace("_", "."): PropertyDefinition(
        each.name, each.default, each.metadata["kind"], each.metadata["doc"]
    )
    for each in fields(Config)
}
"""By name, in the order of the documentation."""


def texts(config: Config) -> dict[str, str]:
    """The settings, by name, that differ from the defaults."""
    return {
        name: known.kind.show(value)
        for name, known in PROPERTIES.items()
        if (value := getattr(config, known.attribute)) != known.default
    }


def from_texts(shown: Mapping[str, str]) -> Config:
    """Restore a configuration from its `texts`, which are not checked again."""
    told = [(PROPERTIES[name], text) for name, text in shown.items()]
    return Config(**{known.attribute: known.kind.parse(text) for known, text in told})
