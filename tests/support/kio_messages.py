"""kio, the reference of the message codecs: random messages, and the bytes kio writes for them."""

import datetime as dt
import importlib
import io
import uuid
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

from coordinator_protocol.schema import Api, Array, FieldLayout, Fixed, Struct, Variable, layout
from tools.generate_messages import APIS
from tools.kio_schemas import kio_name

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ZERO_ID = bytes(16)


class Side(NamedTuple):
    """The request or the response of an API."""

    api: str
    name: str

    def __str__(self) -> str:
        return f"{self.api}-{self.name}"

    @property
    def messages(self) -> Api:
        """Our classes."""
        module = importlib.import_module(f"coordinator_protocol.messages.{self.api}")
        api: Api = module.API
        return api

    @property
    def entity(self) -> type[Any]:
        """Our class."""
        return self.messages.request if self.name == "request" else self.messages.response

    @property
    def versions(self) -> range:
        """All versions."""
        return range(self.messages.first, self.messages.last + 1)

    def kio(self, version: int) -> type[Any]:
        """The class kio has of a version."""
        module = importlib.import_module(f"kio.schema.{self.api}.v{version}.{self.name}")
        kind: type[Any] = getattr(module, self.entity.__name__)
        return kind


SIDES = [Side(api, name) for api in APIS for name in ("request", "response")]

TEXT = st.text(max_size=6) | st.sampled_from(["x" * 127, "é" * 64, "z" * 300])
BLOB = st.binary(max_size=6) | st.sampled_from([b"x" * 126, b"y" * 127, b"z" * 20_000])
INTEGERS = {"b": 8, "h": 16, "i": 32, "q": 64}
# kio's own types of a field hold less than the wire does.
NARROWER: dict[str, st.SearchStrategy[Any]] = {
    "error_code": st.sampled_from([int(code) for code in ErrorCode]),
    "timedelta_i64": st.integers(-(10**14), 10**14),
    "datetime_i64": st.integers(-1, 10**14),
}


_strategies: dict[tuple[type[Any], type[Any]], st.SearchStrategy[Any]] = {}


def messages(entity: type[Any], kio: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Messages that use every field of a version."""
    if (entity, kio) in _strategies:
        return _strategies[entity, kio]
    known = {kio_name(field): field for field in fields(kio)}
    made = {
        field.name: _values(field, known[field.name], version)
        for field in layout(entity, version)
        if field.present
    }
    _strategies[entity, kio] = st.builds(entity, **made)
    return _strategies[entity, kio]


def _values(field: FieldLayout, kio: Any, version: int) -> st.SearchStrategy[Any]:
    kind = kio.metadata.get("kafka_type")
    match field.wire:
        case Array(element=element):
            inner = element_of(kio.type)
            each = (
                messages(element, inner, version)
                if isinstance(element, type)
                else _primitive(element, kind)
            )
            values: st.SearchStrategy[Any] = st.lists(each, max_size=3)
        case Struct(entity=entity):
            values = messages(entity, element_of(kio.type), version)
        case wire:
            values = _primitive(wire, kind)
    return st.none() | values if field.nullable else values


def _primitive(wire: Fixed | Variable, kind: str) -> st.SearchStrategy[Any]:
    if kind in NARROWER:
        return NARROWER[kind]
    if isinstance(wire, Variable):
        return TEXT if wire.name == "string" else BLOB
    if wire.code in INTEGERS:
        half = 1 << INTEGERS[wire.code] - 1
        return st.integers(-half, half - 1)
    others: dict[str, st.SearchStrategy[Any]] = {
        "?": st.booleans(),
        "H": st.integers(0, 65_535),
        "d": st.floats(allow_nan=False),
        "16s": st.just(ZERO_ID) | st.binary(min_size=16, max_size=16),
    }
    return others[wire.code]


def element_of(annotation: Any) -> Any:
    """The class inside a kio annotation: itself, an array of it, or either or None."""
    arguments = [arg for arg in getattr(annotation, "__args__", ()) if arg not in (type(None), ...)]
    return element_of(arguments[0]) if arguments else annotation


def to_kio(message: Any, kio: type[Any]) -> Any:
    """The same message as an instance of kio's class."""
    return kio(
        **{field.name: _convert(getattr(message, kio_name(field)), field) for field in fields(kio)}
    )


def _convert(value: Any, field: Any) -> Any:
    kind = field.metadata.get("kafka_type")
    if isinstance(value, list):
        return tuple(_convert_one(each, kind, field) for each in value)
    return None if value is None else _convert_one(value, kind, field)


def _convert_one(value: Any, kind: str | None, field: Any) -> Any:
    match kind:
        case None:
            return to_kio(value, element_of(field.type))
        case "uuid":
            return None if value == ZERO_ID else uuid.UUID(bytes=value)
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32":
            return i32Timedelta.parse(dt.timedelta(milliseconds=value))
        case "timedelta_i64":
            return i64Timedelta.parse(dt.timedelta(milliseconds=value))
        case "datetime_i64":
            return None if value == -1 else EPOCH + dt.timedelta(milliseconds=value)
        case _:
            return value


def written_by_kio(message: Any, kio: type[Any]) -> bytes:
    """The bytes kio writes for a message of ours."""
    buffer = io.BytesIO()
    entity_writer(kio)(buffer, to_kio(message, kio))
    return buffer.getvalue()


def every_version() -> Iterator[tuple[Side, int]]:
    """Each version of each request and response."""
    for side in SIDES:
        for version in side.versions:
            yield side, version
