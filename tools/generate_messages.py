"""Write the protocol's messages from kio's schemas, which are generated from Kafka's definitions.

    python -m tools.generate_messages            writes the modules
    python -m tools.generate_messages --check    only compares them; exit code 1 if they differ

kio has a class per version; here they are united into one, as in Kafka's own Java classes.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.kio_schemas import PRIMITIVES, Entity, Shape, entities, kio_classes, merged, versions_of

MESSAGES = Path(__file__).resolve().parent.parent / "protocol" / "coordinator_protocol" / "messages"
WIDTH = 100

APIS = (
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "api_versions",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "describe_topic_partitions",
    "end_txn",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_groups",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "sasl_authenticate",
    "sasl_handshake",
    "sync_group",
    "txn_offset_commit",
    "write_txn_markers",
)
"""Those that are not served the codec's tests read: they have kinds of fields of their own."""
# Defaults of Kafka's definitions that kio's classes leave out.
LEFT_OUT = {"ConsumerGroupHeartbeatRequest.topic_partitions": "None"}

COMPILED = {"JoinGroupRequest", "SyncGroupRequest", "SyncGroupRequestAssignment"}
"""They are made for every member of a rebalance; mypyc does not compile what `dataclass` makes."""


class Contradiction(ValueError):
    """kio's versions of a message cannot be united."""


class Field(NamedTuple):
    """One field out of what it is in each version."""

    name: str
    annotation: str
    arguments: list[str]
    default: str
    """The source of its default; empty for a list."""

    def lines(self) -> Iterator[str]:
        """The lines that define it."""
        start, arguments = f"    {self.name}: {self.annotation} = field(", ", ".join(self.arguments)
        line = f"{start}{arguments})"
        if len(line) <= WIDTH:
            yield line
        else:
            yield start
            yield f"        {arguments}"
            yield "    )"


def constructor(fields: Sequence[Field]) -> Iterator[str]:
    """The lines of an `__init__` that does what `dataclass` makes of the fields."""
    yield from ("", "    def __init__(", "        self,")
    for name, annotation, _, default in fields:
        if default:
            yield f"        {name}: {annotation} = {default},"
        else:
            yield f"        {name}: {annotation} | None = None,"
    yield "    ) -> None:"
    for name, _, _, default in fields:
        value = name if default else f"[] if {name} is None else {name}"
        yield f"        self.{name} = {value}"


def united_fields(entity: Entity, versions: Sequence[int]) -> Iterator[Field]:
    """The fields of a class."""
    for name in merged([[each.name for each in fields] for fields in entity.fields.values()]):
        shapes = {
            version: each
            for version, fields in entity.fields.items()
            for each in fields
            if each.name == name
        }
        yield one_field(f"{entity.name}.{name}", name, shapes, versions)


def one_field(where: str, name: str, shapes: dict[int, Shape], versions: Sequence[int]) -> Field:
    """One field out of what it is in each version."""
    wire = _only({each.wire for each in shapes.values()}, where)
    python = _only({each.python for each in shapes.values()}, where)
    defaults = {each.default for each in shapes.values()} - {None}
    default = _only(defaults, where) if defaults else LEFT_OUT.get(where)
    present = _contiguous(shapes, where)
    nullable = _contiguous([v for v, each in shapes.items() if each.nullable], where)
    arguments = [wire, *_versions(present, versions), *_nullable(nullable, present)]
    arguments += _tag(shapes, where)
    zero = "" if python.startswith("list[") else _ZEROS.get(wire, "0")
    if default is not None and default != zero:
        arguments.append(f"default={default}")
    annotation = f"{python} | None" if nullable or wire == "RECORDS" else python
    return Field(name, annotation, arguments, zero if default is None else default)


def _only(values: Iterable[Any], where: str) -> Any:
    found = set(values)
    if len(found) != 1:
        raise Contradiction(f"{where}: differs between versions: {sorted(map(str, found))}")
    return found.pop()


def _contiguous(versions: Iterable[int], where: str) -> tuple[int, int] | None:
    found = sorted(versions)
    if not found:
        return None
    if found != list(range(found[0], found[-1] + 1)):
        raise Contradiction(f"{where}: versions with a gap: {found}")
    return found[0], found[-1]


def _versions(present: tuple[int, int] | None, versions: Sequence[int]) -> Iterator[str]:
    assert present is not None
    if present[0] > versions[0]:
        yield f"since={present[0]}"
    if present[1] < versions[-1]:
        yield f"until={present[1]}"


def _nullable(nullable: tuple[int, int] | None, present: tuple[int, int] | None) -> Iterator[str]:
    assert present is not None
    if nullable is None:
        return
    if nullable[1] == present[1]:
        yield f"nullable={nullable[0]}"
    else:
        yield f"nullable={nullable}"


def _tag(shapes: dict[int, Shape], where: str) -> Iterator[str]:
    tagged = {version: each.tag for version, each in shapes.items() if each.tag is not None}
    if not tagged:
        return
    yield f"tag={_only(tagged.values(), where)}"
    if min(tagged) > min(shapes):
        yield f"tagged={min(tagged)}"


_ZEROS = {
    "STRING": '""',
    "BYTES": 'b""',
    "BOOL": "False",
    "UUID": "bytes(16)",
    "RECORDS": "None",
}
"""Of what is no number."""


def module(api: str) -> str:
    """The source of an API's module."""
    versions = versions_of(api)
    requests = entities(api, "request", versions)
    responses = entities(api, "response", versions)
    every = _united(requests, responses)
    _name_users(every)
    top = {side: kio_classes(api, versions[-1], side)[-1] for side in ("request", "response")}
    flexible = [v for v in versions if kio_classes(api, v, "request")[-1].__flexible__]
    body = [line for entity in every for line in class_lines(entity, versions)]
    key = int(top["request"].__api_key__)
    first_flexible = flexible[0] if flexible else None
    title = top["request"].__name__.removesuffix("Request")
    return "\n".join(
        [
            f'"""{title} (key {key}), {_spoken(versions, first_flexible)}."""',
            "",
            *(["# ruff: noqa: RUF009"] if _has_lists(body) else []),
            "from dataclasses import dataclass",
            "",
            *_imports("\n".join(body)),
            *body,
            "",
            "",
            "API = Api(",
            f"    key={key},",
            f"    first={versions[0]},",
            f"    last={versions[-1]},",
            f"    flexible={first_flexible},",
            f"    request={top['request'].__name__},",
            f"    response={top['response'].__name__},",
            ")",
            "",
        ]
    )


def _spoken(versions: Sequence[int], flexible: int | None) -> str:
    if len(versions) == 1:
        text = f"version {versions[0]}"
    else:
        text = f"versions {versions[0]}-{versions[-1]}"
    if flexible is None:
        return f"{text}, never flexible"
    return f"{text}, flexible" if flexible <= versions[0] else f"{text}, flexible from {flexible}"


def _united(requests: list[Entity], responses: list[Entity]) -> list[Entity]:
    """Both sides' classes; one that both have is kept once, and must be the same."""
    known = {entity.name: entity for entity in requests}
    for entity in responses:
        if entity.name in known and entity.fields != known[entity.name].fields:
            raise Contradiction(f"{entity.name}: differs between request and response")
    return requests + [entity for entity in responses if entity.name not in known]


def _name_users(every: list[Entity]) -> None:
    by_name = {entity.name: entity for entity in every}
    for entity in every:
        for each in itertools.chain(*entity.fields.values()):
            if each.nested and not by_name[each.nested].used_by:
                kind = "An element of" if each.python.startswith("list") else "The type of"
                by_name[each.nested].used_by = f"{kind} `{entity.name}.{each.name}`."


def class_lines(entity: Entity, versions: Sequence[int]) -> Iterator[str]:
    """The lines that define a class."""
    kind = "request" if entity.name.endswith("Request") else "response"
    is_compiled = entity.name in COMPILED
    made = "slots=True, init=False" if is_compiled else "slots=True"
    yield from ("", "", f"@dataclass({made})", f"class {entity.name}:")
    yield f'    """{entity.used_by or f"The body of a {kind}."}"""'
    fields = list(united_fields(entity, versions))
    if fields:
        yield ""
    for field in fields:
        yield from field.lines()
    if is_compiled:
        yield from constructor(fields)


def _imports(body: str) -> Iterator[str]:
    types = sorted({wire for wire, _ in PRIMITIVES.values()}, key=_natural)
    names = [name for name in types if f"({name}" in body or f"([{name}]" in body]
    names += ["Api"] if "field(" not in body else ["Api", "field"]
    line = f"from coordinator_protocol.schema import {', '.join(names)}"
    if len(line) <= WIDTH:
        yield line
        return
    yield "from coordinator_protocol.schema import ("
    yield from (f"    {name}," for name in names)
    yield ")"


def _has_lists(body: Iterable[str]) -> bool:
    """Whether ruff takes a list for a default that all objects share."""
    return any(": list[" in line for line in body)


def _natural(name: str) -> tuple[str, int]:
    """INT8 before INT16."""
    digits = "".join(filter(str.isdigit, name))
    return name.rstrip("0123456789"), int(digits or 0)


def outdated(folder: Path) -> list[str]:
    """The modules in a folder that are not what the generator writes."""
    sources = {f"{api}.py": module(api) for api in APIS}
    stale = [name for name, text in sources.items() if _read(folder / name) != text]
    extra = {path.name for path in folder.glob("*.py")} - {"__init__.py", *sources}
    return sorted([*stale, *extra])


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def write(folder: Path) -> None:
    """Write all modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for api in APIS:
        (folder / f"{api}.py").write_text(module(api))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Write coordinator_protocol/messages from kio's schemas."
    )
    parser.add_argument("--check", action="store_true", help="only compare, exit 1 if outdated")
    if not parser.parse_args(arguments).check:
        write(MESSAGES)
        return 0
    stale = outdated(MESSAGES)
    for name in stale:
        print(
            f"protocol/coordinator_protocol/messages/{name} is not what the generator writes",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
