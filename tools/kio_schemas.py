"""Read kio's schemas: what every field of a message is on the wire, version by version."""

import dataclasses
import datetime as dt
import importlib
import itertools
import pkgutil
import types
import typing
from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter
from typing import Any

# kio's type -> (ours on the wire, ours in Python)
PRIMITIVES = {
    "bool": ("BOOL", "bool"),
    "int8": ("INT8", "int"),
    "int16": ("INT16", "int"),
    "uint16": ("UINT16", "int"),
    "int32": ("INT32", "int"),
    "int64": ("INT64", "int"),
    "float64": ("FLOAT64", "float"),
    "string": ("STRING", "str"),
    "bytes": ("BYTES", "bytes"),
    "records": ("RECORDS", "bytes"),
    "uuid": ("UUID", "bytes"),
    "error_code": ("INT16", "int"),
    "timedelta_i32": ("INT32", "int"),
    "timedelta_i64": ("INT64", "int"),
    "datetime_i64": ("INT64", "int"),
}
# What kio spells None has a value of its own on the wire.
NONE_ON_THE_WIRE = {"uuid": "bytes(16)", "datetime_i64": "-1"}


@dataclasses.dataclass(frozen=True)
class Shape:
    """One field in one version."""

    name: str
    wire: str
    """The expression that makes its wire type."""
    python: str
    nullable: bool
    tag: int | None
    default: str | None
    nested: str | None


@dataclasses.dataclass
class Entity:
    """A message class: its fields by version, and where it is used."""

    name: str
    fields: dict[int, list[Shape]]
    used_by: str = ""


def kio_name(field: "dataclasses.Field[Any]") -> str:
    """Kafka's name of a kio field: kio drops the "Ms" of durations and of points in time."""
    kind = str(field.metadata.get("kafka_type", ""))
    return f"{field.name}_ms" if kind.startswith(("timedelta", "datetime")) else field.name


def is_entity(kind: type) -> bool:
    """Whether a kio type is a nested message."""
    return dataclasses.is_dataclass(kind)


def shape(field: "dataclasses.Field[Any]") -> Shape:
    """What a field of a kio class looks like on the wire."""
    kind = field.metadata.get("kafka_type")
    inner, is_optional = _without_none(field.type)
    is_array = typing.get_origin(inner) is tuple
    element = typing.get_args(inner)[0] if is_array else inner
    nested = str(element.__name__) if isinstance(element, type) and is_entity(element) else None
    wire, python = PRIMITIVES[str(kind)] if nested is None else (nested, nested)
    if is_array:
        wire, python = f"[{wire}]", f"list[{python}]"
    return Shape(
        name=kio_name(field),
        wire=wire,
        python=python,
        nullable=is_optional and (is_array or kind not in NONE_ON_THE_WIRE),
        tag=field.metadata.get("tag"),
        default=_default(field, str(kind)),
        nested=nested,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (types.UnionType, typing.Union):
        return annotation, False
    (inner,) = (arg for arg in typing.get_args(annotation) if arg is not type(None))
    return inner, True


def _default(field: "dataclasses.Field[Any]", kind: str) -> str | None:
    """The default as source text; None where it is the wire type's own."""
    value = field.default
    if value is dataclasses.MISSING or value == () or dataclasses.is_dataclass(value):
        return None
    if value is None:
        return NONE_ON_THE_WIRE.get(kind, "None")
    if isinstance(value, dt.timedelta):
        return str(value // dt.timedelta(milliseconds=1))
    if isinstance(value, str):
        return f'"{value}"'
    return str(value if isinstance(value, bool) else int(value))


def versions_of(api: str) -> list[int]:
    """The versions kio has of an API."""
    package = importlib.import_module(f"kio.schema.{api}")
    return sorted(int(module.name[1:]) for module in pkgutil.iter_modules(package.__path__))


def kio_classes(api: str, version: int, side: str) -> list[Any]:
    """The kio classes of a request or response, nested ones first."""
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{side}")
    return [
        member
        for member in vars(module).values()
        if dataclasses.is_dataclass(member) and member.__module__ == module.__name__
    ]


def entities(api: str, side: str, versions: Iterable[int]) -> list[Entity]:
    """The united classes of all versions of a request or response, nested ones first."""
    found: dict[str, Entity] = {}
    orders = []
    for version in versions:
        classes = kio_classes(api, version, side)
        orders.append([each.__name__ for each in classes])
        for each in classes:
            entity = found.setdefault(each.__name__, Entity(each.__name__, {}))
            entity.fields[version] = [shape(field) for field in dataclasses.fields(each)]
    return [found[name] for name in merged(orders)]


def merged(orders: Sequence[Sequence[str]]) -> list[str]:
    """One order that agrees with all of them; where they leave it open, the older comes first."""
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys(itertools.chain(*orders)))}
    graph: dict[str, set[str]] = {name: set() for name in ranks}
    for order in orders:
        for before, after in itertools.pairwise(order):
            graph[after].add(before)
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    ready: list[str] = []
    result: list[str] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        ready.sort(key=ranks.__getitem__)
        result.append(ready.pop(0))
        sorter.done(result[-1])
    return result
