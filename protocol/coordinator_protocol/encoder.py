"""Compiles encoders: one Python function per message and version, written from its layout.

They write byte for byte what Kafka's generated classes write: tagged fields only where they differ
from their default, in the order of their tags, and a marker byte before a struct that may be null.
What a version does not carry is left out silently.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct as Format
from struct import error as StructError  # noqa: N812 - it is a class
from struct import pack
from typing import Any

from coordinator_protocol.code_writer import Source
from coordinator_protocol.decoding import MAX_STRING
from coordinator_protocol.schema import Array, FieldLayout, Fixed, Struct, Variable, Wire, layout
from coordinator_protocol.varints import uvarint

Encoder = Callable[[Any], bytes]
"""message -> the bytes of its body."""

PartsEncoder = Callable[[Any], list[bytes]]
"""The same in parts: what is bytes in the message is one of them, and not copied."""

BYTE = tuple(bytes([value]) for value in range(256))


def string_length(length: int) -> bytes:
    """The varint of a compact string's length + 1, checked as Kafka does."""
    if length > MAX_STRING + 1:
        raise ValueError(f"a string of {length - 1} bytes, at most {MAX_STRING} are allowed")
    return uvarint(length)


def compile_encoder(entity: type[Any], version: int, *, flexible: bool) -> Encoder:
    """An encoder of a version of a message; it raises ValueError for what has no encoding."""
    encoder: Encoder = _compile(entity, version, flexible, "b''.join(w)")
    return encoder


def compile_parts_encoder(entity: type[Any], version: int, *, flexible: bool) -> PartsEncoder:
    """As `compile_encoder`, of a message that is not of a fixed size."""
    encoder: PartsEncoder = _compile(entity, version, flexible, "w")
    return encoder


def _compile(entity: type[Any], version: int, flexible: bool, result: str) -> Any:
    title = f"{entity.__name__} v{version}"
    source = Source()
    source.refer("StructError", StructError)
    with source.block("def encode(e):"):
        with source.block("try:"):
            _EncoderSource(source, version, flexible).whole(entity, result)
        failures = "AttributeError, TypeError, ValueError, StructError"
        with source.block(f"except ({failures}) as error:"):
            source.line(f"raise ValueError(f'{title} cannot be written: {{error}}') from error")
    return source.compile("encode", f"encoder of {title}")


class _EncoderSource:
    """Writes the statements that write one message.

    In the function, `e` is the message and `w` the list of parts, `a` its append. Values of a
    fixed size are gathered in a run and written by a single `pack`, together with the length that
    follows, if that has one byte.
    """

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []
        self.parts = "w"
        for name, helper in (("BYTE", BYTE), ("pack", pack), ("uvarint", uvarint)):
            source.refer(name, helper)
        source.refer("string_length", string_length)

    def whole(self, entity: type[Any], result: str) -> None:
        """Write a message and return an expression of its parts."""
        fixed = self._fixed("e", entity)
        if fixed is not None:
            self.source.line(f"return {self._pack(fixed)}")
            return
        self.source.line("w = []")
        self.source.line("a = w.append")
        self.entity("e", entity)
        self.flush()
        self.source.line(f"return {result}")

    def entity(self, message: str, entity: type[Any]) -> None:
        """Write the fields of the message of that name."""
        tagged = []
        for field in layout(entity, self.version):
            if field.present and field.tag is not None:
                tagged.append(field)
            elif field.present:
                self.value(f"{message}.{field.name}", field)
        if not self.flexible:
            return
        if tagged:
            self._tagged_fields(message, sorted(tagged, key=lambda field: field.tag or 0))
        else:
            self.run.append(("0", "B"))

    def _fixed(self, message: str, entity: type[Any]) -> list[tuple[str, str]] | None:
        """The run that a message is, if all of it has a fixed size."""
        run = []
        for field in layout(entity, self.version):
            if not field.present:
                continue
            if field.tag is not None or not isinstance(field.wire, Fixed):
                return None
            run.append((f"{message}.{field.name}", field.wire.code))
        return [*run, ("0", "B")] if self.flexible else run

    def _pack(self, run: list[tuple[str, str]]) -> str:
        """The expression of a run's bytes."""
        codes = "".join(code for _, code in run)
        values = ", ".join(value for value, _ in run)
        if codes == "B":
            return f"BYTE[{values}]"
        return f"{self.source.refer(f'pack_{codes}', _packer(codes))}({values})"

    def append(self, part: str) -> None:
        """Add an expression of bytes to the parts."""
        self.source.line(f"{'a' if self.parts == 'w' else f'{self.parts}.append'}({part})")

    def flush(self) -> None:
        """Write the run."""
        run, self.run = self.run, []
        if run:
            self.append(self._pack(run))

    def _flush_with_length(self, length: str, long: str) -> None:
        """Write the run and a compact length, for which `long` is used if one byte is too short."""
        run, self.run = self.run, []
        short = self._pack([*run, (length, "B")])
        before = f"{self._pack(run)} + " if run else ""
        self.append(f"{short} if {length} < 128 else {before}{long}({length})")

    def value(self, value: str, field: FieldLayout) -> None:
        """Write a field whose value is that expression."""
        match field.wire:
            case Fixed(code=code):
                self.run.append((value, code))
            case Struct(entity=entity) if not field.nullable:
                self.entity(self._local(field.name, value), entity)
            case Struct(entity=entity):
                self._nullable_struct(self._local(field.name, value), entity)
            case Array(element=element):
                self._array(value, field, element)
            case Variable() as wire:
                self._variable(value, field, wire)

    def _local(self, hint: str, value: str) -> str:
        name = self.source.local(hint)
        self.source.line(f"{name} = {value}")
        return name

    def _variable(self, value: str, field: FieldLayout, wire: Variable) -> None:
        is_text = wire.name == "string"
        nullable = field.nullable or wire.default is None
        encode = ".encode()" if is_text else ""
        name = self._local(field.name, value if nullable else value + encode)
        length = self._length(name, encode, nullable)
        if self.flexible:
            self._flush_with_length(length, "string_length" if is_text else "uvarint")
        else:
            self.run.append((length, "h" if is_text else "i"))
            self.flush()
        self.append(name)

    def _length(self, name: str, encode: str, nullable: bool, empty: str = "b''") -> str:
        """Compute the length of a local as it goes on the wire; its null becomes `empty`."""
        plus = " + 1" if self.flexible else ""
        length = self.source.local("n")
        if not nullable:
            self.source.line(f"{length} = len({name}){plus}")
            return length
        with self.source.block(f"if {name} is None:"):
            self.source.line(f"{name} = {empty}")
            self.source.line(f"{length} = {'0' if self.flexible else '-1'}")
        with self.source.block("else:"):
            if encode:
                self.source.line(f"{name} = {name}{encode}")
            self.source.line(f"{length} = len({name}){plus}")
        return length

    def _nullable_struct(self, name: str, entity: type[Any]) -> None:
        self.flush()
        with self.source.block(f"if {name} is None:"):
            self.append("BYTE[255]")
        with self.source.block("else:"):
            self.run.append(("1", "b"))
            self.entity(name, entity)
            self.flush()

    def _array(self, value: str, field: FieldLayout, element: Wire | type[Any]) -> None:
        name = self._local(field.name, value)
        length = self._length(name, "", field.nullable, empty="()")
        if self.flexible:
            self._flush_with_length(length, "uvarint")
        else:
            self.run.append((length, "i"))
            self.flush()
        if isinstance(element, type):
            self._messages(name, element)
        elif isinstance(element, Fixed):
            self._numbers(name, element)
        else:
            one = FieldLayout(field.name, element, True, False, None, None)
            self._loop(name, field.name, lambda each: self.value(each, one))

    def _messages(self, name: str, entity: type[Any]) -> None:
        each = self.source.local("each")
        fixed = self._fixed(each, entity)
        if fixed is None:
            self._loop(name, "each", lambda message: self.entity(message, entity))
        else:
            self.source.line(f"{self.parts} += [{self._pack(fixed)} for {each} in {name}]")

    def _numbers(self, name: str, wire: Fixed) -> None:
        if wire.code == "16s":
            self.append(f"b''.join({name})")
        else:
            self.append(f"pack(f'>{{len({name})}}{wire.code}', *{name})")

    def _loop(self, name: str, hint: str, write: Callable[[str], None]) -> None:
        each = self.source.local(hint)
        with self.source.block(f"for {each} in {name}:"):
            write(each)
            self.flush()

    def _tagged_fields(self, message: str, tagged: list[FieldLayout]) -> None:
        self.flush()
        count, section = self._local("count", "0"), self._local("section", "[]")
        for field in tagged:
            value = self._local(field.name, f"{message}.{field.name}")
            with self.source.block(f"if {value} {self._differs(field)}:"):
                self.source.line(f"{count} += 1")
                with self._other_parts() as parts:
                    self.value(value, field)
                    self.flush()
                body = self._local("body", f"b''.join({parts})")
                tag = self.source.refer(f"tag_{field.tag}", uvarint(field.tag or 0))
                self.source.line(f"{section} += ({tag}, uvarint(len({body})), {body})")
        self.append(f"BYTE[{count}]")
        self.source.line(f"{self.parts} += {section}")

    @contextmanager
    def _other_parts(self) -> Iterator[str]:
        """Write into a new list of parts inside the context."""
        before = self.parts
        self.parts = self._local("parts", "[]")
        yield self.parts
        self.parts = before

    def _differs(self, field: FieldLayout) -> str:
        """The right side of the comparison of a tagged field with its default."""
        if field.default is None:
            return "is not None"
        default = field.default() if isinstance(field.wire, Array | Struct) else field.default
        return f"!= {self.source.refer(f'default_{field.name}', default)}"


@cache
def _packer(codes: str) -> Callable[..., bytes]:
    return Format(f">{codes}").pack
