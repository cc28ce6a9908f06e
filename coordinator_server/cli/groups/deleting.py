"""`groups delete-offsets`: deletes committed offsets of some partitions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click
from click.exceptions import Exit

from coordinator_server.cli.arguments import fail
from coordinator_server.cli.groups.options import (
    Format,
    bootstrap_option,
    execute_option,
    format_option,
    group_argument,
    groups,
    show,
    topics_option,
)
from coordinator_server.cli.groups.reading import cluster_at
from coordinator_server.cli.groups.resetting import (
    InvalidReset,
    Partition,
    Wanted,
    chosen,
    parse_topics,
)


@groups.command("delete-offsets")
@group_argument
@topics_option(required=True)
@execute_option
@bootstrap_option
@format_option
def delete_offsets(
    group: str,
    topics: tuple[str, ...],
    execute: bool,
    bootstrap: str | None,
    form: Format,
) -> None:
    """Delete offsets of GROUP, unless members are subscribed; without --execute only show them."""
    if bootstrap is None:
        fail("delete-offsets uses the Kafka protocol: expected --bootstrap-server", code=2)
    try:
        wanted = parse_topics(topics)
    except InvalidReset as error:
        fail(str(error), code=2)
    outcomes = _delete(bootstrap, group, wanted, execute=execute)
    if not show([{"group": group, **each._asdict()} for each in outcomes], form):
        _print(group, outcomes)
    if not execute:
        click.echo("nothing was changed: use --execute to apply this", err=True)
    if any(each.error not in (None, "NONE") for each in outcomes):
        raise Exit(1)


class OffsetDeletion(NamedTuple):
    """The committed offset of a partition and the result of its deletion."""

    topic: str
    partition: int
    offset: int | None
    error: str | None
    """Kafka's name of the error, NONE for success; None without --execute."""


def _print(group: str, outcomes: Sequence[OffsetDeletion]) -> None:
    from coordinator_server.cli.groups.tables import print_table

    columns = ("GROUP", "TOPIC", ">PARTITION", ">CURRENT-OFFSET", "STATUS")
    words = ("OK" if each.error == "NONE" else each.error for each in outcomes)
    rows = zip(outcomes, words, strict=True)
    print_table(columns, ((group, *each[:3], word) for each, word in rows))


def _delete(bootstrap: str, group: str, wanted: Wanted, *, execute: bool) -> list[OffsetDeletion]:
    from coordinator_server.cli.groups import kafka_groups
    from coordinator_server.cli.groups.kafka import KafkaProblem

    try:
        with cluster_at(bootstrap) as cluster:
            found = kafka_groups.committed_offsets(cluster, group)
            offsets = {partition: each.offset for partition, each in found.items()}
            partitions = sorted(chosen(wanted, offsets, {}))
            errors: Mapping[Partition, str] = {}
            if execute:
                errors = kafka_groups.delete_offsets(cluster, group, partitions)
    except (KafkaProblem, InvalidReset) as error:
        fail(str(error))
    return [OffsetDeletion(*each, offsets.get(each), errors.get(each)) for each in partitions]
