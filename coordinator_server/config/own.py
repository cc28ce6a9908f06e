"""The names of the properties of this server."""

OWN = frozenset(
    {
        "admin.token",
        "admin.token.file",
        "auto.create.topics.max",
        "cluster.id",
        "group.max.groups",
        "group.max.member.metadata.bytes",
        "http.allowed.hosts",
        "http.listener",
        "http.max.connections",
        "log.flush",
        "log.format",
        "log.journal.bytes",
        "log.level",
        "log.recovery",
        "max.partitions.per.topic",
        "max.partitions.total",
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
"""Properties that Kafka does not have."""
