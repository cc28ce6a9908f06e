"""The settings: Kafka's broker properties that are read here, and a few of our own.

An attribute is the property's name with underscores for dots; `docs/config.md` is made from it.
"""

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from coordinator_server.config.listeners import (
    MAX_PORT,
    SECURITY_PROTOCOLS,
    Address,
    Listener,
    advertised_problems,
    listener_problems,
    undialable_problems,
)
from coordinator_server.config.types import (
    INT_MAX,
    Aliases,
    Boolean,
    Directory,
    HttpAddress,
    Int,
    Listeners,
    Long,
    Pattern,
    ProtocolMap,
    Rate,
    Share,
    Topics,
    Word,
)

OWN = frozenset(
    {
        "admin.token",
        "admin.token.file",
        "auto.create.topics.max",
        "cluster.id",
        "http.listener",
        "http.max.connections",
        "log.flush",
        "log.format",
        "log.journal.bytes",
        "log.level",
        "metrics.aliases",
        "metrics.groups.allow",
        "metrics.groups.deny",
        "metrics.groups.max.series",
        "rebalance.flapping.max.rebalances",
        "rebalance.flapping.window.ms",
        "rebalance.history.max.records",
        "rebalance.history.retention.ms",
        "rebalance.storm.max.rebalances",
        "topics",
        "workers",
        "workers.port.step",
    }
)
"""Properties Kafka does not have."""


MAX_WORKERS = 64
"""Of one data directory; more processes than any machine of this kind of load has cores."""


def setting(default: Any, doc: str, *, ge: int | None = None, le: int | None = None) -> Any:
    """A property's default, bounds and documentation."""
    return Field(default, description=doc, ge=ge, le=le)


class Config(BaseModel):
    """Every setting, checked. Build it with `load`, or `Config()` for the defaults."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "."),
    )

    # Who and where
    node_id: Int = setting(1, "This node's id in every answer. `broker.id` is read too.", ge=0)
    cluster_id: str | None = setting(
        None, "The cluster's id; made at the first start and kept with the data if not given."
    )
    listeners: Listeners = setting(
        (Listener("PLAINTEXT", "127.0.0.1", 9092),),
        "Where Kafka clients connect. An empty host listens on all interfaces, port 0 takes a free "
        "port. If only `advertised.listeners` is given, its ports on all interfaces.",
    )
    advertised_listeners: Listeners = setting(
        (), "What clients are told to connect to; `listeners` where it is not given."
    )
    listener_security_protocol_map: ProtocolMap = setting(
        tuple((name, name) for name in SECURITY_PROTOCOLS),
        "The security protocol of every listener name. Only PLAINTEXT is served.",
    )
    http_listener: HttpAddress = setting(
        Address("127.0.0.1", 9404),
        "Where metrics, health and the JSON API are served; an empty value switches HTTP off.",
    )

    http_max_connections: Int = setting(
        500,
        "HTTP connections at once; what comes beyond is closed. `max.connections` does not count "
        "them.",
        ge=1,
    )

    workers: Int = setting(
        1,
        "Processes that share the data directory and its partitions; each is a broker to clients, "
        "with `node.id` and the ports of `listeners` counted up. 1 is one process that does all.",
        ge=1,
        le=MAX_WORKERS,
    )
    workers_port_step: Int = setting(
        1,
        "By how much the ports of a worker differ from those of the one before; port 0 stays any "
        "free port.",
        ge=1,
    )

    admin_token: str = setting(
        "",
        "What HTTP requests have to present that change groups: `Authorization: Bearer TOKEN`. "
        "Without a token they are refused.",
    )
    admin_token_file: str = setting(
        "", "A file with that token, so that it is in no command line and no environment."
    )

    # Connections
    socket_request_max_bytes: Int = setting(
        104_857_600, "The largest request; a larger one closes its connection.", ge=1
    )
    max_connections: Int = setting(INT_MAX, "Connections at once, over all listeners.", ge=0)
    max_connections_per_ip: Int = setting(INT_MAX, "Connections at once from one address.", ge=1)
    connections_max_idle_ms: Long = setting(
        600_000, "A connection without requests for this long is closed; -1 never.", ge=-1
    )

    # Data
    log_dirs: Directory = setting(
        Path("data"), "The data directory. `log.dir` is read too; several are refused."
    )
    log_flush: Annotated[Literal["commit", "interval", "os"], Word] = setting(
        "commit",
        "When records are on disk: before they are answered (`commit`), every "
        "`log.flush.interval.ms` (`interval`), or when the system likes (`os`).",
    )
    log_flush_interval_ms: Long = setting(
        1_000, "How often data is synced to disk with `log.flush=interval`.", ge=1
    )
    log_journal_bytes: Int = setting(
        67_108_864,
        "How much the journal takes before the logs are synced and it begins anew; there are two "
        "such files, which grow to this size as needed. 0 is no journal: then every partition's "
        "file is written on its own, and with `log.flush=commit` synced.",
        ge=0,
    )
    log_roll_ms: Long = setting(
        604_800_000,
        "How far the timestamps of a segment's records go at most before a new one begins. "
        "`log.roll.hours` is read too.",
        ge=1,
    )
    log_segment_bytes: Int = setting(
        1_073_741_824, "Size at which a topic's log begins a new segment file.", ge=1_048_576
    )

    # Compaction of the coordinator's log
    log_cleaner_enable: Boolean = setting(True, "Whether the coordinator's log is compacted.")
    log_cleaner_min_cleanable_ratio: Share = setting(
        0.5, "The share of new data in the closed segments of a log from which it is compacted."
    )
    log_cleaner_delete_retention_ms: Long = setting(
        86_400_000, "How long tombstones are kept once a compaction has seen them.", ge=0
    )
    log_cleaner_backoff_ms: Long = setting(
        15_000, "How often logs to compact are looked for while there is none.", ge=1
    )
    log_cleaner_io_max_bytes_per_second: Rate = setting(
        10_485_760.0, "How much compaction reads and writes at most; Kafka's default is no bound."
    )

    # Topics
    topics: Topics = setting((), "Topics that exist from the start: `orders:4,payments:2`.")
    auto_create_topics_enable: Boolean = setting(
        True, "Whether topics are made when a client first asks for them."
    )
    auto_create_topics_max: Int = setting(
        10_000,
        "With how many topics none is made that way any more; clients get POLICY_VIOLATION for it. "
        "CreateTopics has no such bound.",
        ge=0,
    )
    num_partitions: Int = setting(1, "Partitions of a topic made without a count.", ge=1)
    message_max_bytes: Int = setting(1_048_588, "The largest record batch of a topic.", ge=0)

    # Offsets
    offsets_topic_num_partitions: Int = setting(
        50, "Partitions of the coordinator's log; never change it once there is data.", ge=1
    )
    offsets_topic_segment_bytes: Int = setting(
        104_857_600, "Size at which the coordinator's log begins a new segment file.", ge=1
    )
    offsets_commit_timeout_ms: Int = setting(
        5_000, "How long a write of the coordinator may take before it is answered as failed.", ge=1
    )
    offsets_retention_minutes: Int = setting(
        10_080, "How long offsets are kept that nobody uses any more.", ge=1
    )
    offsets_retention_check_interval_ms: Long = setting(
        600_000, "How often they are looked for.", ge=1
    )
    offset_metadata_max_bytes: Int = setting(
        4_096, "The longest metadata text of a committed offset, in UTF-16 units as in Kafka.", ge=0
    )

    # Classic groups
    group_min_session_timeout_ms: Int = setting(
        6_000, "The shortest session a member may ask for.", ge=0
    )
    group_max_session_timeout_ms: Int = setting(
        1_800_000, "The longest session a member may ask for.", ge=1
    )
    group_initial_rebalance_delay_ms: Int = setting(
        3_000, "How long the first rebalance of an empty group waits for more members.", ge=0
    )
    group_max_size: Int = setting(INT_MAX, "Members of one group.", ge=1)

    # What is told of rebalances
    rebalance_history_retention_ms: Long = setting(
        604_800_000,
        "How long the log keeps the story of a finished rebalance; 0 writes none.",
        ge=0,
    )
    rebalance_history_max_records: Int = setting(
        1_000, "How many finished rebalances of a group the log keeps at most.", ge=1
    )
    rebalance_flapping_window_ms: Long = setting(
        600_000, "How far back rebalances are counted to find members that flap.", ge=1
    )
    rebalance_flapping_max_rebalances: Int = setting(
        5, "More rebalances than this by the same culprit within the window are flapping.", ge=1
    )
    rebalance_storm_max_rebalances: Int = setting(
        10, "More rebalances of a group than this within the window are a storm.", ge=1
    )

    # Metrics
    metrics_groups_allow: Pattern = setting(
        None,
        "Groups that have series of their own at `/metrics`: those whose whole id this fits, `.*` "
        "for all. Without it none has.",
    )
    metrics_groups_deny: Pattern = setting(None, "Groups that have none nevertheless.")
    metrics_groups_max_series: Int = setting(
        10_000,
        "How many series groups and topics have together at most. The groups that come first by "
        "their ids have theirs; `kafka_group_coordinator_series_left_out` counts the others.",
        ge=0,
    )
    metrics_aliases: Aliases = setting(
        (),
        "Names of others under which figures come as well: `jmx` for those of a broker's JMX "
        "exporter, `kafka_exporter` for that one's, which are of the groups allowed above.",
    )

    # The server's own log
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Word] = setting(
        "info", "The least important lines that are logged."
    )
    log_format: Annotated[Literal["auto", "console", "json"], Word] = setting(
        "auto", "How lines are written; `auto` is console on a terminal and JSON elsewhere."
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

    def _worker_problems(self) -> Iterable[tuple[str, str]]:
        if self.workers > self.offsets_topic_num_partitions:
            most = self.offsets_topic_num_partitions
            yield "workers", f"expected at most offsets.topic.num.partitions={most}"
        for listeners in (self.listeners, self.advertised_listeners):
            yield from _port_problems(listeners, self.workers, self.workers_port_step)

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


def _port_problems(
    listeners: Iterable[Listener], workers: int, step: int
) -> Iterable[tuple[str, str]]:
    """Ports of workers that there are not, or twice."""
    taken: dict[int, str] = {}
    for index in range(workers):
        for listener in listeners:
            port = listener.port + index * step
            if not listener.port:
                continue
            who = f"{listener.name} of worker {index}"
            if port > MAX_PORT:
                yield "workers", f"{who} would have port {port}, expected at most {MAX_PORT}"
                return
            if index and taken.get(port, "").rpartition(" ")[2] not in ("", str(index)):
                yield (
                    "workers.port.step",
                    f"{who} and {taken[port]} have port {port}, expected distinct ports",
                )
                return
            taken[port] = who


def property_names() -> dict[str, str]:
    """The attribute of every property, in the order of the documentation."""
    return {name.replace("_", "."): name for name in Config.model_fields}
