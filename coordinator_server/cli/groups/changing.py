"""`groups kick|rebalance|delete|reset`: commands that change groups."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from click.exceptions import Exit

from coordinator_server.cli.arguments import fail, say
from coordinator_server.cli.groups.http_api import (
    ApiError,
    change,
    get,
    group_path,
    read_token,
    try_change,
)
from coordinator_server.cli.groups.options import (
    Format,
    bootstrap_option,
    execute_option,
    format_option,
    group_argument,
    groups,
    show,
    token_file_option,
    token_option,
    topics_option,
    url_option,
)
from coordinator_server.cli.groups.reading import cluster_at, one_server
from coordinator_server.cli.groups.resetting import (
    InvalidReset,
    PlannedReset,
    Target,
    Wanted,
    chosen,
    parse_topics,
    plan,
)

reason_option = click.option(
    "--reason", default="", help="A text that the timeline and the log will contain."
)


@groups.command()
@group_argument
@click.argument("member", default="")
@click.option("--instance", help="A static member's group.instance.id.")
@reason_option
@url_option
@token_option
@token_file_option
@format_option
def kick(
    group: str,
    member: str,
    instance: str | None,
    reason: str,
    url: str | None,
    token: str | None,
    token_file: Path | None,
    form: Format,
) -> None:
    """Remove MEMBER, a member id, from GROUP; it may join again."""
    if bool(member) == bool(instance):
        fail("expected either MEMBER or --instance", code=2)
    path = f"{group_path(group)}/members/{quote(member, safe='')}/kick"
    body = {"reason": reason, "group_instance_id": instance}
    change(url, "POST", path, body, read_token(token, token_file))
    done = {"group": group, "member_id": member or None, "group_instance_id": instance}
    if not show({**done, "error": "NONE"}, form):
        say(f"{member or instance} is no longer in group {group}")


@groups.command()
@group_argument
@reason_option
@url_option
@token_option
@token_file_option
@format_option
def rebalance(
    group: str,
    reason: str,
    url: str | None,
    token: str | None,
    token_file: Path | None,
    form: Format,
) -> None:
    """Make all members of GROUP join again."""
    path = f"{group_path(group)}/rebalance"
    change(url, "POST", path, {"reason": reason}, read_token(token, token_file))
    if not show({"group": group, "error": "NONE"}, form):
        say(f"group {group} is rebalancing")


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@url_option
@bootstrap_option
@token_option
@token_file_option
@format_option
def delete(
    names: tuple[str, ...],
    url: str | None,
    bootstrap: str | None,
    token: str | None,
    token_file: Path | None,
    form: Format,
) -> None:
    """Delete groups that have no members, with their offsets."""
    if one_server(url, bootstrap) is None:
        given = read_token(token, token_file)
        results = {name: _http_delete(url, name, given) for name in names}
    else:
        results = _kafka_delete(bootstrap or "", names)
    answer = [{"group": name, "error": error} for name, error in results.items()]
    if not show(answer, form):
        from coordinator_server.cli.groups.tables import print_table

        words = [(name, "OK" if error == "NONE" else error) for name, error in results.items()]
        print_table(("GROUP", "STATUS"), words)
    if any(error != "NONE" for error in results.values()):
        raise Exit(1)


def _http_delete(url: str | None, name: str, token: str | None) -> str:
    """`NONE` or the server's error, which does not stop the deletion of other groups."""
    try:
        try_change(url, "DELETE", group_path(name), None, token)
    except ApiError as problem:
        if problem.is_about_the_token:
            fail(str(problem))
        return str(problem)
    return "NONE"


def _kafka_delete(bootstrap: str, names: Sequence[str]) -> dict[str, str]:
    from coordinator_server.cli.groups import kafka_groups
    from coordinator_server.cli.groups.kafka import KafkaProblem

    try:
        with cluster_at(bootstrap) as cluster:
            return {name: kafka_groups.delete_group(cluster, name) for name in names}
    except KafkaProblem as error:
        fail(str(error))


@groups.command()
@group_argument
@topics_option(required=False)
@click.option("--all-topics", is_flag=True, help="Every topic the group has committed.")
@click.option("--to-earliest", is_flag=True, help="The oldest record.")
@click.option("--to-latest", is_flag=True, help="The end of the log.")
@click.option("--to-offset", type=int, help="This offset.")
@click.option("--shift-by", type=int, help="Add N to the committed offset; N may be negative.")
@execute_option
@url_option
@bootstrap_option
@token_option
@token_file_option
@format_option
def reset(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    execute: bool,
    url: str | None,
    bootstrap: str | None,
    token: str | None,
    token_file: Path | None,
    form: Format,
) -> None:
    """Set the offsets of GROUP, which must have no members; without --execute only show them."""
    target = Target(to_earliest, to_latest, to_offset, shift_by)
    if problem := target.problem():
        fail(problem, code=2)
    if bool(topics) == all_topics:
        fail("expected either --topic or --all-topics", code=2)
    if (to_earliest or to_latest) and one_server(url, bootstrap) is None:
        fail("--to-earliest and --to-latest need the log's offsets: use --bootstrap-server", code=2)
    try:
        wanted = parse_topics(topics) if topics else None
    except InvalidReset as error:
        fail(str(error), code=2)
    try:
        if one_server(url, bootstrap) is None:
            given = read_token(token, token_file) if execute else None
            planned = _http_reset(url, group, target, wanted, given, execute=execute)
        else:
            planned = _kafka_reset(bootstrap or "", group, target, wanted, execute=execute)
    except InvalidReset as error:
        fail(str(error))
    _show_plan(group, planned, form, execute=execute)


def _show_plan(group: str, planned: Sequence[PlannedReset], form: Format, *, execute: bool) -> None:
    if show([{"group": group, **entry._asdict()} for entry in planned], form):
        return
    from coordinator_server.cli.groups.tables import print_plan

    print_plan(group, planned)
    if not execute:
        click.echo("nothing was changed: use --execute to apply this", err=True)


def _http_reset(
    url: str | None,
    group: str,
    target: Target,
    wanted: Wanted,
    token: str | None,
    *,
    execute: bool,
) -> list[PlannedReset]:
    described: Any = get(url, group_path(group))
    offsets = described["offsets"]
    committed = {(each["topic"], each["partition"]): each["offset"] for each in offsets}
    planned = plan(target, chosen(wanted, committed, {}), committed, None)
    _refuse_active(group, described["state"])
    if execute:
        body = [{"topic": p.topic, "partition": p.partition, "offset": p.new} for p in planned]
        path = f"{group_path(group)}/offsets/reset"
        change(url, "POST", path, {"offsets": body}, token)
    return planned


def _kafka_reset(
    bootstrap: str, group: str, target: Target, wanted: Wanted, *, execute: bool
) -> list[PlannedReset]:
    from coordinator_server.cli.groups import kafka_groups
    from coordinator_server.cli.groups.kafka import KafkaProblem

    try:
        with cluster_at(bootstrap) as cluster:
            found = kafka_groups.committed_offsets(cluster, group)
            committed = {partition: each.offset for partition, each in found.items()}
            known = kafka_groups.partitions_of(cluster, list(wanted)) if wanted else {}
            partitions = chosen(wanted, committed, known)
            first = kafka_groups.log_offsets(cluster, partitions, kafka_groups.EARLIEST)
            end = kafka_groups.log_offsets(cluster, partitions, kafka_groups.LATEST)
            bounds = {each: (first[each], end[each]) for each in partitions if each in end}
            planned = plan(target, partitions, committed, bounds)
            _refuse_active(group, kafka_groups.state(cluster, group))
            if execute:
                new = {(each.topic, each.partition): each.new for each in planned}
                kafka_groups.commit(cluster, group, new)
            return planned
    except KafkaProblem as error:
        fail(str(error))


def _refuse_active(group: str, state: str) -> None:
    """Kafka has the same condition: members would overwrite the offsets with their next commit."""
    if state not in ("Empty", "Dead"):
        raise InvalidReset(
            f"group {group!r} is {state}: its offsets can only be reset while it has no members"
        )
