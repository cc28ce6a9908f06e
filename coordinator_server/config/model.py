"""The settings: Kafka's broker properties that are read here, and a few of our own.

An attribute is the property's name with underscores for dots; `docs/config.md` is made from it.
"""

import re
import socket
from collections.abc import Iterable, Mapping
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
    advertised_problems,
    listener_problems,
    port_problems,
    undialable_problems,
)

MAX_WORKERS = 64
"""Of one data directory; more processes than any machine of this kind of load has cores."""


ALIASES = ("jmx", "kafka_exporter")


def setting(kind: Kind, default: Any, doc: str) -> Any:
    """A property: what it takes, its default and its documentation."""
    return field(default=default, metadata={"kind": kind, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting. Build it with `load`, which checks them, or `Config()` for the defaults."""

    # Who and where
    node_id: int = setting(
        integer(ge=0), 1, "This node's id in every answer. `broker.id` is read too."
    )
    cluster_id: str | None = setting(
        CLUSTER_ID,
        None,
        "The cluster's id; made at the first start and kept with the data if not given.",
    )
    listeners: tuple[Listener, ...] = setting(
        LISTENERS,
        (Listener("PLAINTEXT", "127.0.0.1", 9092),),
        "Where Kafka clients connect. An empty host listens on all interfaces, port 0 takes a free "
        "port. If only `advertised.listeners` is given, its ports on all interfaces.",
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        LISTENERS, (), "What clients are told to connect to; `listeners` where it is not given."
    )
    listener_security_protocol_map: tuple[tuple[str, str], ...] = setting(
        PROTOCOL_MAP,
        tuple((name, name) for name in SECURITY_PROTOCOLS),
        "The security protocol of every listener name. Only PLAINTEXT is served.",
    )
    http_listener: Address | None = setting(
        HTTP_ADDRESS,
        Address("127.0.0.1", 9404),
        "Where metrics, health and the JSON API are served; an empty value switches HTTP off.",
    )

    http_max_connections: int = setting(
        integer(ge=1),
        500,
        "HTTP connections at once; beyond it the longest silent one is closed for a new one. At "
        "most half of them, and 256, are streams of events. `max.connections` does not count them.",
    )
    http_allowed_hosts: tuple[str, ...] = setting(
        HOSTS,
        (),
        "Names that HTTP requests may have in their Host header, `*.example.org` for all below a "
        "name, `*` for all. Addresses, `localhost`, names without a dot, the advertised names and "
        "this machine's are always accepted; others are answered 421, against DNS rebinding.",
    )

    workers: int = setting(
        integer(ge=1, le=MAX_WORKERS),
        1,
        "Processes that share the data directory and its partitions; each is a broker to clients, "
        "with `node.id` and the ports of `listeners` counted up. 1 is one process that does all.",
    )
    workers_port_step: int = setting(
        integer(ge=1),
        1,
        "By how much the ports of a worker differ from those of the one before; port 0 stays any "
        "free port.",
    )

    admin_token: str = setting(
        TEXT,
        "",
        "What HTTP requests have to present that change groups: `Authorization: Bearer TOKEN`. "
        "Without a token they are refused.",
    )
    admin_token_file: str = setting(
        TEXT, "", "A file with that token, so that it is in no command line and no environment."
    )

    # Connections
    socket_request_max_bytes: int = setting(
        integer(ge=1), 104_857_600, "The largest request; a larger one closes its connection."
    )
    queued_max_request_bytes: int = setting(
        long(ge=-1),
        0,
        "Memory for the data of all clients, in bytes: requests that are being received or are in "
        "progress, and responses that were not read. Above it large requests wait. 0 takes a "
        "quarter of the memory of the machine or control group, at most 2 GiB, shared by all "
        "workers; -1 is no bound, Kafka's default. A request larger than this is refused.",
    )
    max_connections: int = setting(
        integer(ge=0), INT_MAX, "Connections at once, over all listeners."
    )
    max_connections_per_ip: int = setting(
        integer(ge=1), INT_MAX, "Connections at once from one address."
    )
    connections_max_idle_ms: int = setting(
        long(ge=-1), 600_000, "A connection without requests for this long is closed; -1 never."
    )

    # Data
    log_dirs: Path = setting(
        DIRECTORY, Path("data"), "The data directory. `log.dir` is read too; several are refused."
    )
    log_flush: Literal["commit", "interval", "os"] = setting(
        one_of("commit", "interval", "os"),
        "commit",
        "When records are on disk: before they are answered (`commit`), every "
        "`log.flush.interval.ms` (`interval`), or when the system likes (`os`).",
    )
    log_flush_interval_ms: int = setting(
        long(ge=1), 1_000, "How often data is synced to disk with `log.flush=interval`."
    )
    log_journal_bytes: int = setting(
        integer(ge=0),
        67_108_864,
        "How much the journal takes before the logs are synced and it begins anew; there are two "
        "such files, which grow to this size as needed. 0 is no journal: then every partition's "
        "file is written on its own, and with `log.flush=commit` synced.",
    )
    log_recovery: Literal["strict", "truncate"] = setting(
        one_of("strict", "truncate"),
        "strict",
        "What a start does where records are lost that were acknowledged: the partitions that may "
        "have lost some are not served until they are repaired (`strict`), or they are served with "
        "what is there, and the log says what was lost (`truncate`).",
    )
    log_roll_ms: int = setting(
        long(ge=1),
        604_800_000,
        "How far the timestamps of a segment's records go at most before a new one begins. "
        "`log.roll.hours` is read too.",
    )
    log_segment_bytes: int = setting(
        integer(ge=1_048_576),
        1_073_741_824,
        "Size at which a topic's log begins a new segment file.",
    )

    # Compaction of the coordinator's log
    log_cleaner_enable: bool = setting(BOOLEAN, True, "Whether the coordinator's log is compacted.")
    log_cleaner_min_cleanable_ratio: float = setting(
        number("a number from 0 to 1", ge=0.0, le=1.0),
        0.5,
        "The share of new data in the closed segments of a log from which it is compacted.",
    )
    log_cleaner_delete_retention_ms: int = setting(
        long(ge=0), 86_400_000, "How long tombstones are kept once a compaction has seen them."
    )
    log_cleaner_backoff_ms: int = setting(
        long(ge=1), 15_000, "How often logs to compact are looked for while there is none."
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        number("a number of at least 1", ge=1.0),
        10_485_760.0,
        "How much compaction reads and writes at most; Kafka's default is no bound.",
    )

    # Topics
    topics: tuple[DeclaredTopic, ...] = setting(
        TOPICS, (), "Topics that exist from the start: `orders:4,payments:2`."
    )
    auto_create_topics_enable: bool = setting(
        BOOLEAN, True, "Whether topics are made when a client first asks for them."
    )
    auto_create_topics_max: int = setting(
        integer(ge=0),
        10_000,
        "With how many topics none is made that way any more; clients get POLICY_VIOLATION for it. "
        "CreateTopics has no such bound.",
    )
    max_partitions_per_topic: int = setting(
        integer(ge=1, le=MOST_PARTITIONS),
        MOST_PARTITIONS,
        "Partitions of one topic at most; CreateTopics is answered INVALID_PARTITIONS beyond it.",
    )
    max_partitions_total: int = setting(
        integer(ge=1),
        200_000,
        "Partitions of all topics together at most, however they are made; clients get "
        "POLICY_VIOLATION beyond it. Topics that exist already are served in any case.",
    )
    num_partitions: int = setting(
        integer(ge=1, le=MOST_PARTITIONS), 1, "Partitions of a topic made without a count."
    )
    message_max_bytes: int = setting(
        integer(ge=0), 1_048_588, "The largest record batch of a topic."
    )

    # Offsets
    offsets_topic_num_partitions: int = setting(
        integer(ge=1, le=MOST_PARTITIONS),
        50,
        "Partitions of the coordinator's log; never change it once there is data.",
    )
    offsets_topic_segment_bytes: int = setting(
        integer(ge=1), 104_857_600, "Size at which the coordinator's log begins a new segment file."
    )
    offsets_commit_timeout_ms: int = setting(
        integer(ge=1),
        5_000,
        "How long a write of the coordinator may take before it is answered as failed.",
    )
    offsets_retention_minutes: int = setting(
        integer(ge=1), 10_080, "How long offsets are kept that nobody uses any more."
    )
    offsets_retention_check_interval_ms: int = setting(
        long(ge=1), 600_000, "How often they are looked for."
    )
    offset_metadata_max_bytes: int = setting(
        integer(ge=0),
        4_096,
        "The longest metadata text of a committed offset, in UTF-16 units as in Kafka.",
    )

    # Classic groups
    group_min_session_timeout_ms: int = setting(
        integer(ge=0), 6_000, "The shortest session a member may ask for."
    )
    group_max_session_timeout_ms: int = setting(
        integer(ge=1), 1_800_000, "The longest session a member may ask for."
    )
    group_initial_rebalance_delay_ms: int = setting(
        integer(ge=0),
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
    )
    group_max_size: int = setting(integer(ge=1), INT_MAX, "Members of one group.")
    group_max_member_metadata_bytes: int = setting(
        integer(ge=1),
        4_194_304,
        "Bytes of the protocols in one JoinGroup; more is refused with INVALID_REQUEST. Not in "
        "Kafka, where a group larger than a batch fails when its leader assigns.",
    )
    group_max_groups: int = setting(
        integer(ge=1),
        1_000_000,
        "Groups in the memory of a process; requests that would make another one are refused with "
        "COORDINATOR_NOT_AVAILABLE, which clients try again. Not in Kafka.",
    )

    # What is told of rebalances
    rebalance_history_retention_ms: int = setting(
        long(ge=0),
        604_800_000,
        "How long the log keeps the story of a finished rebalance; 0 writes none.",
    )
    rebalance_history_max_records: int = setting(
        integer(ge=1), 1_000, "How many finished rebalances of a group the log keeps at most."
    )
    rebalance_flapping_window_ms: int = setting(
        long(ge=1), 600_000, "How far back rebalances are counted to find members that flap."
    )
    rebalance_flapping_max_rebalances: int = setting(
        integer(ge=1),
        5,
        "More rebalances than this by the same culprit within the window are flapping.",
    )
    rebalance_storm_max_rebalances: int = setting(
        integer(ge=1), 10, "More rebalances of a group than this within the window are a storm."
    )

    # Metrics
    metrics_groups_allow: re.Pattern[str] | None = setting(
        PATTERN,
        None,
        "Groups that have series of their own at `/metrics`: those whose whole id this fits, `.*` "
        "for all. Without it none has.",
    )
    metrics_groups_deny: re.Pattern[str] | None = setting(
        PATTERN, None, "Groups that have none nevertheless."
    )
    metrics_groups_max_series: int = setting(
        integer(ge=0),
        10_000,
        "How many series groups and topics have together at most. The groups that come first by "
        "their ids have theirs; `kafka_group_coordinator_series_left_out` counts the others.",
    )
    metrics_aliases: tuple[str, ...] = setting(
        some_of(*ALIASES),
        (),
        "Names of others under which figures come as well: `jmx` for those of a broker's JMX "
        "exporter, `kafka_exporter` for that one's, which are of the groups allowed above.",
    )

    # The server's own log
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        one_of("debug", "info", "warning", "error"),
        "info",
        "The least important lines that are logged.",
    )
    log_format: Literal["auto", "console", "json"] = setting(
        one_of("auto", "console", "json"),
        "auto",
        "How lines are written; `auto` is console on a terminal and JSON elsewhere.",
    )

    def advertised(self) -> tuple[Listener, ...]:
        """What clients of each listener are told, in the order of `listeners`.

        A listener without an advertised one is told as it is; without a host, by this machine's
        name; port 0 stays 0: only whoever binds it knows the port.
        """
        told = {listener.name: listener for listener in self.advertised_listeners}
        return tuple(
            told.get(own.name) or (own if own.host else own._replace(host=socket.gethostname()))
            for own in self.listeners
        )

    def http_names(self) -> tuple[str, ...]:
        """The names under which HTTP may be asked, beside those that no stranger can own."""
        told = [listener.host for listener in (*self.advertised_listeners, *self.listeners)]
        own = [] if self.http_listener is None else [self.http_listener.host]
        return (*self.http_allowed_hosts, *(host for host in (*own, *told) if host))

    def _worker_problems(self) -> Iterable[tuple[str, str]]:
        if self.workers > self.offsets_topic_num_partitions:
            most = self.offsets_topic_num_partitions
            yield "workers", f"expected at most offsets.topic.num.partitions={most}"
        if self.node_id > INT_MAX - self.workers + 1:
            yield "node.id", f"expected at most {INT_MAX - self.workers + 1}: workers count up"
        for listeners in (self.listeners, self.advertised_listeners):
            yield from port_problems(listeners, self.workers, self.workers_port_step)

    def problems(self) -> Iterable[tuple[str, str]]:
        """Settings that are right each, but not together: the property to blame, and why."""
        protocols = dict(self.listener_security_protocol_map)
        for problem in listener_problems(self.listeners, protocols):
            yield "listeners", problem
        for problem in undialable_problems(self.advertised_listeners, self.listeners):
            yield "listeners", problem
        for problem in advertised_problems(self.advertised_listeners, self.listeners):
            yield "advertised.listeners", problem
        yield from self._worker_problems()
        if self.admin_token and self.admin_token_file:
            yield "admin.token.file", "expected either admin.token or admin.token.file"
        if "kafka_exporter" in self.metrics_aliases and self.metrics_groups_allow is None:
            yield (
                "metrics.aliases",
                "kafka_exporter has series of groups: expected metrics.groups.allow, `.*` for all",
            )
        longest = self.group_max_session_timeout_ms
        if self.group_min_session_timeout_ms > longest:
            yield (
                "group.min.session.timeout.ms",
                f"expected at most group.max.session.timeout.ms={longest}",
            )


class PropertyDefinition(NamedTuple):
    """What is known of a property."""

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
    """What has to be set, by name, for a configuration that is the same."""
    return {
        name: known.kind.show(value)
        for name, known in PROPERTIES.items()
        if (value := getattr(config, known.attribute)) != known.default
    }


def from_texts(shown: Mapping[str, str]) -> Config:
    """The configuration of which these are the `texts`; it has been checked before."""
    told = [(PROPERTIES[name], text) for name, text in shown.items()]
    return Config(**{known.attribute: known.kind.parse(text) for known, text in told})
