"""Finds contradictions between settings that are valid on their own."""

from collections.abc import Iterable

from coordinator_server.config.kinds import INT_MAX
from coordinator_server.config.listeners import (
    advertised_problems,
    listener_problems,
    port_problems,
    undialable_problems,
)
from coordinator_server.config.model import Config


def contradictions(config: Config) -> Iterable[tuple[str, str]]:
    """The property to change and the reason, for each contradiction."""
    listeners, advertised = config.listeners, config.advertised_listeners
    protocols = dict(config.listener_security_protocol_map)
    for problem in listener_problems(listeners, protocols):
        yield "listeners", problem
    for problem in undialable_problems(advertised, listeners):
        yield "listeners", problem
    for problem in advertised_problems(advertised, listeners):
        yield "advertised.listeners", problem
    yield from _of_workers(config)
    if config.admin_token and config.admin_token_file:
        yield "admin.token.file", "expected either admin.token or admin.token.file"
    if "kafka_exporter" in config.metrics_aliases and config.metrics_groups_allow is None:
        yield (
            "metrics.aliases",
            "kafka_exporter needs groups with series: set metrics.groups.allow, `.*` for all",
        )
    longest = config.group_max_session_timeout_ms
    if config.group_min_session_timeout_ms > longest:
        yield (
            "group.min.session.timeout.ms",
            f"expected at most group.max.session.timeout.ms={longest}",
        )


def _of_workers(config: Config) -> Iterable[tuple[str, str]]:
    if config.workers > config.offsets_topic_num_partitions:
        most = config.offsets_topic_num_partitions
        yield "workers", f"expected at most offsets.topic.num.partitions={most}"
    highest = INT_MAX - config.workers + 1
    if config.node_id > highest:
        yield "node.id", f"expected at most {highest}: each worker adds 1"
    for listeners in (config.listeners, config.advertised_listeners):
        yield from port_problems(listeners, config.workers, config.workers_port_step)
