"""`groups list|describe|why|waiting|timeline`: commands that only read."""

from typing import TYPE_CHECKING, Any

import click

from coordinator_server.cli.arguments import fail
from coordinator_server.cli.groups.http_api import get, group_path
from coordinator_server.cli.groups.options import (
    Format,
    bootstrap_option,
    format_option,
    group_argument,
    groups,
    show,
    url_option,
)

if TYPE_CHECKING:
    from coordinator_server.cli.groups.kafka import KafkaCluster

STATES = (
    "Unknown",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""Kafka's GroupState, including states of group kinds that only brokers have."""

DEFAULT_EVENTS = 10
"""Entries of `groups why` without --limit."""
MIN_REQUESTED = 100
"""Rebalances that `groups why` requests at least, because it folds similar ones."""
MAX_EVENTS = 1_000
"""The log keeps no more rebalances of a group by default."""

state_option = click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only groups in this state; may be repeated.",
)


@groups.command("list")
@url_option
@bootstrap_option
@state_option
@format_option
def list_groups(
    url: str | None,
    bootstrap: str | None,
    states: tuple[str, ...],
    form: Format,
) -> None:
    """List the groups; over HTTP with the reason of their last rebalance."""
    from coordinator_server.cli.groups import tables

    wanted = {_state(state) for state in states}
    over_http = one_server(url, bootstrap) is None
    answer = get(url, "/api/groups") if over_http else _kafka_list(bootstrap)
    if wanted:
        listed = answer["groups"]
        answer["groups"] = [group for group in listed if group["state"] in wanted]
    if not show(answer, form):
        (tables.print_groups if over_http else tables.print_kafka_groups)(answer["groups"])
        if not wanted:
            tables.print_findings(answer.get("findings", ()))


def _state(text: str) -> str:
    """A state in Kafka's spelling; the argument may have any case, as in Kafka's tools."""
    named = {state.lower(): state for state in STATES}
    if text.lower() not in named:
        fail(f"--state {text!r}: expected one of {', '.join(STATES)}", code=2)
    return named[text.lower()]


def one_server(url: str | None, bootstrap: str | None) -> str | None:
    """The address of the Kafka listener; None for HTTP."""
    if bootstrap and url:
        fail("expected either --url or --bootstrap-server", code=2)
    return bootstrap


def cluster_at(bootstrap: str) -> "KafkaCluster":
    """A connection to a Kafka listener; raises KafkaProblem."""
    from coordinator_server.cli.groups.kafka import KafkaCluster
    from coordinator_server.config.listeners import parse_address

    try:
        address = parse_address(bootstrap)
    except ValueError as error:
        fail(f"--bootstrap-server: {error}", code=2)
    return KafkaCluster(address.host, address.port)


def _kafka_list(bootstrap: str | None) -> Any:
    from coordinator_server.cli.groups import kafka_groups
    from coordinator_server.cli.groups.kafka import KafkaProblem

    assert bootstrap is not None
    try:
        with cluster_at(bootstrap) as cluster:
            return {"groups": kafka_groups.list_groups(cluster)}
    except KafkaProblem as error:
        fail(str(error))


@groups.command()
@group_argument
@url_option
@bootstrap_option
@click.option("--members", is_flag=True, help="Show members instead of offsets.")
@format_option
def describe(
    group: str,
    url: str | None,
    bootstrap: str | None,
    members: bool,
    form: Format,
) -> None:
    """Describe GROUP: state, offsets and their readers; with --bootstrap-server also the lag."""
    from coordinator_server.cli.groups import tables

    if one_server(url, bootstrap) is None:
        answer = get(url, group_path(group))
    else:
        answer = _kafka_describe(bootstrap, group)
    if not show(answer, form):
        tables.print_group(answer)
        (tables.print_members if members else tables.print_offsets)(answer)


def _kafka_describe(bootstrap: str | None, group: str) -> Any:
    from coordinator_server.cli.groups import kafka_groups
    from coordinator_server.cli.groups.kafka import KafkaProblem

    assert bootstrap is not None
    try:
        with cluster_at(bootstrap) as cluster:
            return kafka_groups.describe(cluster, group)
    except KafkaProblem as error:
        fail(str(error))


@groups.command()
@group_argument
@url_option
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=MAX_EVENTS),
    help=f"Number of refusals and of folded rebalances. [default: {DEFAULT_EVENTS}]",
)
@format_option
def why(group: str, url: str | None, limit: int | None, form: Format) -> None:
    """Show why GROUP rebalanced and why its requests were refused, the latest first."""
    requested = limit if limit is None or form != "text" else max(limit, MIN_REQUESTED)
    answer = get(url, f"{group_path(group)}/why" + (f"?limit={requested}" if requested else ""))
    if not show(answer, form):
        from coordinator_server.cli.group_report import print_why

        print_why(answer, limit or DEFAULT_EVENTS)


@groups.command()
@group_argument
@url_option
@format_option
def waiting(group: str, url: str | None, form: Format) -> None:
    """Show the members that GROUP waits for, since when, and until when."""
    answer = get(url, f"{group_path(group)}/waiting")
    if not show(answer, form):
        from coordinator_server.cli.groups.tables import print_waiting

        print_waiting(answer)


@groups.command()
@group_argument
@url_option
@click.option(
    "--limit", type=click.IntRange(min=1, max=MAX_EVENTS), default=20, help="Number of rebalances."
)
@format_option
def timeline(
    group: str,
    url: str | None,
    limit: int,
    form: Format,
) -> None:
    """List the rebalances of GROUP, one per line, the latest first."""
    answer = get(url, f"{group_path(group)}/timeline?limit={limit}")
    if not show(answer, form):
        from coordinator_server.cli.groups.tables import print_timeline

        print_timeline(answer)
