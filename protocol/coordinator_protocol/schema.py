"""The wire format as the message classes describe it.

A message is a dataclass; `field` gives each attribute its wire type and the versions that carry
it, in the terms of Kafka's own message definitions (versions, nullableVersions, taggedVersions).
`layout` answers what one version of a message looks like; decoder.py and encoder.py compile that.
"""

import dataclasses
from typing import Any, NamedTuple

LATEST = 1 << 15
"""Above any version: `until` of a field that has not been removed."""

_UNSET: Any = object()


class Fixed(NamedTuple):
    """A wire type of a fixed number of bytes."""

    code: str
    """Its `struct` format character."""
    size: int
    default: Any


class Variable(NamedTuple):
    """A wire type that is preceded by its length."""

    name: str
    default: Any


class Array(NamedTuple):
    """Elements preceded by their count."""

    element: "Fixed | Variable | type[Any]"


class Struct(NamedTuple):
    """A nested message. Preceded by a marker byte only where it may be null (KIP-893)."""

    entity: type[Any]


Wire = Fixed | Variable | Array | Struct

BOOL = Fixed("?", 1, False)
INT8 = Fixed("b", 1, 0)
INT16 = Fixed("h", 2, 0)
UINT16 = Fixed("H", 2, 0)
INT32 = Fixed("i", 4, 0)
INT64 = Fixed("q", 8, 0)
FLOAT64 = Fixed("d", 8, 0.0)
UUID = Fixed("16s", 16, bytes(16))
STRING = Variable("string", "")
BYTES = Variable("bytes", b"")
RECORDS = Variable("records", None)


class FieldRule(NamedTuple):
    """The type and versions (first, last) of a field on the wire; (1, 0) stands for none."""

    wire: Wire
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tag: int | None
    tagged: tuple[int, int]


class FieldLayout(NamedTuple):
    """One field of one version of a message."""

    name: str
    wire: Wire
    present: bool
    nullable: bool
    tag: int | None
    default: Any
    """The value of an absent field; for lists and nested messages its factory."""


class Api(NamedTuple):
    """A request and its response, the versions there are, and the first flexible one, if any."""

    key: int
    first: int
    last: int
    flexible: int | None
    request: type[Any]
    response: type[Any]

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible is not None and version >= self.flexible


def field(
    kind: Fixed | Variable | type[Any] | list[Any],
    *,
    since: int = 0,
    until: int = LATEST,
    nullable: int | tuple[int, int] | None = None,
    tag: int | None = None,
    tagged: int = 0,
    default: Any = _UNSET,
) -> Any:
    """A dataclass field with its place on the wire.

    `kind`: a wire type, the class of a nested message, or a list of one such for an array.
    `since`, `until`: the versions that carry it. `nullable`: since when null is allowed, or from
    when until when. `tag`: its number in the tagged fields, where it moves in version `tagged`.
    `default`: its value where a version does not carry it, by default the wire type's zero value.
    """
    wire = _wire(kind)
    rule = FieldRule(
        wire,
        (since, until),
        _range(nullable),
        tag,
        (1, 0) if tag is None else (tagged, LATEST),
    )
    metadata = {"rule": rule}
    if default is not _UNSET:
        return dataclasses.field(default=default, metadata=metadata)
    if isinstance(wire, Array):
        return dataclasses.field(default_factory=list, metadata=metadata)
    if isinstance(wire, Struct):
        return dataclasses.field(default_factory=wire.entity, metadata=metadata)
    return dataclasses.field(default=wire.default, metadata=metadata)


def _wire(kind: Fixed | Variable | type[Any] | list[Any]) -> Wire:
    if isinstance(kind, list):
        (element,) = kind
        return Array(element)
    return Struct(kind) if isinstance(kind, type) else kind


def layout(entity: type[Any], version: int) -> list[FieldLayout]:
    """The fields of a version of a message in the order of the wire, absent ones included."""
    return [_place(field, version) for field in dataclasses.fields(entity)]


def _place(field: "dataclasses.Field[Any]", version: int) -> FieldLayout:
    rule: FieldRule = field.metadata["rule"]
    made = field.default is dataclasses.MISSING
    return FieldLayout(
        field.name,
        rule.wire,
        _within(rule.versions, version),
        _within(rule.nullable, version),
        rule.tag if _within(rule.tagged, version) else None,
        field.default_factory if made else field.default,
    )


def _range(since: int | tuple[int, int] | None) -> tuple[int, int]:
    if since is None:
        return (1, 0)
    return (since, LATEST) if isinstance(since, int) else since


def _within(versions: tuple[int, int], version: int) -> bool:
    return versions[0] <= version <= versions[1]
