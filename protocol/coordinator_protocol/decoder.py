"""Compiles decoders: one Python function per message and version, written from its layout.

They follow the readers of Kafka's generated classes: any negative length is null, text that is no
UTF-8 is repaired, unknown tagged fields are skipped, bytes behind the body are ignored. Whatever
the bytes, a decoder returns a message or raises `Malformed`: counts are held against the bytes
left before anything is allocated. A single read may pass the end of the frame, though not of the
buffer, and the last statement of the function finds out.
"""

from collections.abc import Callable, Generator, Sequence
from functools import cache
from struct import Struct as Format
from struct import error as StructError  # noqa: N812 - it is a class
from struct import unpack_from
from typing import Any

from coordinator_protocol.code_writer import Source
from coordinator_protocol.decode_cache import SuffixCache
from coordinator_protocol.decoding import (
    bad_count,
    compact_length,
    long_bytes,
    long_string,
    null,
    skip,
    skip_tagged_fields,
    too_many,
    uvarint,
)
from coordinator_protocol.errors import Malformed
from coordinator_protocol.schema import Array, FieldLayout, Fixed, Struct, Variable, Wire, layout

Decoder = Callable[[bytes, int, int], Any]
"""(buffer, start, end) -> message; bytes from `end` on are not part of it."""

SlicedDecoder = Callable[[bytes, int, int, int, int], Generator[None, None, tuple[Any, int]]]
"""(buffer, start, end, elements, entries) -> steps that return (message, elements left).

`elements` is how many elements all arrays and sections of tagged fields may have together,
`entries` how many the arrays of the message itself may have. They are counted before they are read.
"""

SLICE_ELEMENTS = 512
"""Array elements that a sliced decoder reads before it yields."""

SLICE_BYTES = 1 << 16
"""Bytes after which it yields, too: text that is no UTF-8 takes long to repair."""


def minimal_size(entity: type[Any], version: int, flexible: bool) -> int:
    """The fewest bytes a message can have."""
    sizes = [
        _minimal(field, version, flexible)
        for field in layout(entity, version)
        if field.present and field.tag is None
    ]
    return sum(sizes) + flexible


def _minimal(field: FieldLayout, version: int, flexible: bool) -> int:
    match field.wire:
        case Fixed(size=size):
            return size
        case Struct(entity=entity):
            return 1 if field.nullable else minimal_size(entity, version, flexible)
        case Variable(name="string"):
            return 1 if flexible else 2
        case _:
            return 1 if flexible else 4


_HELPERS: tuple[Callable[..., Any], ...] = (
    unpack_from,
    uvarint,
    compact_length,
    long_string,
    long_bytes,
    null,
    bad_count,
    skip_tagged_fields,
    skip,
    too_many,
)


def compile_decoder(
    entity: type[Any],
    version: int,
    *,
    flexible: bool,
    tails: SuffixCache | None = None,
) -> Decoder:
    """A decoder of a version of a message, which may share what is the same in many others."""
    title = f"{entity.__name__} v{version}"
    source = Source()
    source.refer("Malformed", Malformed)
    source.refer("StructError", StructError)
    with source.block("def decode(b, p, end):"):
        source.line("start = p")
        with source.block("try:"):
            _DecoderSource(source, version, flexible).whole(entity, tails)
        with source.block("except (IndexError, StructError):"):
            source.line(f"raise Malformed(f'{title} ends early: {{end - start}} bytes') from None")
        with source.block("except Malformed as error:"):
            source.line(f"raise Malformed(f'{title}: {{error}}') from None")
    return source.compile("decode", f"decoder of {title}")


def compile_sliced_decoder(entity: type[Any], version: int, *, flexible: bool) -> SlicedDecoder:
    """A decoder of large bodies: it counts what it reads, and yields now and then."""
    title = f"{entity.__name__} v{version}"
    source = Source()
    source.refer("Malformed", Malformed)
    source.refer("StructError", StructError)
    with source.block("def decode(b, p, end, left, entries):"):
        source.line("start, most, most_entries = p, left, entries")
        source.line(f"read, next_p = 0, p + {SLICE_BYTES}")
        with source.block("if 0:"):
            source.line("yield")  # a generator, also of a message without an array
        with source.block("try:"):
            _SlicedWriter(source, version, flexible).whole(entity, None)
        with source.block("except (IndexError, StructError):"):
            source.line(f"raise Malformed(f'{title} ends early: {{end - start}} bytes') from None")
        with source.block("except Malformed as error:"):
            source.line(f"raise type(error)(f'{title}: {{error}}') from None")
    return source.compile("decode", f"sliced decoder of {title}")


class _DecoderSource:
    """Writes the statements that read one message.

    In the function, `b` is the buffer, `p` the position, `end` where the message has to stop.
    Fields of a fixed size are gathered in a run and read by a single `unpack_from`, together with
    the first byte or bytes of the length that follows.
    """

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str, int]] = []
        for helper in _HELPERS:
            source.refer(helper.__name__, helper)

    def whole(self, entity: type[Any], tails: SuffixCache | None) -> None:
        """Read a message that has to end at `end`."""
        made = self.entity(entity) if tails is None else self._in_two_parts(entity, tails)
        self._end()
        self.source.line(f"return {self._result(made)}")

    def _result(self, made: str) -> str:
        return made

    def _counted(self, count: str) -> None:
        """Hold so many more elements against a bound; a decoder of small bodies has none."""

    def _counted_array(self, count: str) -> None:
        """Hold the elements of an array of the message itself against a bound of their own."""

    def _rest(self) -> None:
        """Yield if enough has been read since the last time; see `_SlicedWriter`."""

    def _end(self) -> None:
        self.flush()
        with self.source.block("if p > end:"):
            self.source.line("raise IndexError")

    def entity(self, entity: type[Any]) -> str:
        """Read the fields of a message; returns the expression that makes it."""
        fields = layout(entity, self.version)
        while fields and not fields[-1].present:
            fields = fields[:-1]
        values = self._fields(entity, fields, ends=True)
        return f"{self.source.refer(entity.__name__, entity)}({', '.join(values)})"

    def _in_two_parts(self, entity: type[Any], tails: SuffixCache) -> str:
        """Read the fields of a message, unless the bytes behind one of them are known."""
        fields = layout(entity, self.version)
        split = [field.name for field in fields].index(tails.behind) + 1
        own = self._fields(entity, fields[:split], ends=False)
        self.flush()
        self.source.refer("tails", tails)
        self.source.line(f"tail = b[p:end] if end - p <= {tails.longest} else None")
        self.source.line("known = tails.get(tail)")
        with self.source.block("if known is None:"):
            values = self._fields(entity, fields[split:], ends=True)
            self._end()
            self.source.line(f"known = tails.remember(tail, ({', '.join(values)},))")
        alike = [self.source.local(field.name) for field in fields[split:]]
        self.source.line(f"{', '.join(alike)}, = known")
        return f"{self.source.refer(entity.__name__, entity)}({', '.join([*own, *alike])})"

    def _fields(self, entity: type[Any], fields: Sequence[FieldLayout], *, ends: bool) -> list[str]:
        """Read fields of a message, which may end with them; returns expressions of the values."""
        values: list[str] = []
        tagged: dict[str, FieldLayout] = {}
        for field in fields:
            if not field.present:
                values.append(self._default(field))
            elif field.tag is None:
                values.append(self.value(field, f"{entity.__name__}.{field.name}"))
            else:
                values.append(self.source.local(field.name))
                tagged[values[-1]] = field
        if self.flexible and ends:
            self._tagged_fields(tagged, entity)
        return values

    def _default(self, field: FieldLayout) -> str:
        if isinstance(field.wire, Array) and field.default is list:
            return "[]"
        if isinstance(field.wire, Struct) and field.default is not None:
            return f"{self.source.refer(field.default.__name__, field.default)}()"
        return repr(field.default)

    def take(self, hint: str, code: str, size: int) -> str:
        """Add a value to the run; returns its name."""
        name = self.source.local(hint)
        self.run.append((name, code, size))
        return name

    def flush(self, stay: int = 0) -> None:
        """Read the run; the position stays that many bytes before its end."""
        run, self.run = self.run, []
        codes = "".join(code for _, code, _ in run)
        if codes == "B":
            self.source.line(f"{run[0][0]} = b[p]")
        elif codes == "16s":
            self.source.line(f"{run[0][0]} = b[p:p + 16]")
        elif run:
            unpack = self.source.refer(f"unpack_{codes}", _unpacker(codes))
            self.source.line(f"{', '.join(name for name, _, _ in run)}, = {unpack}(b, p)")
        advance = sum(size for _, _, size in run) - stay
        if advance:
            self.source.line(f"p += {advance}")

    def value(self, field: FieldLayout, path: str) -> str:
        """Read a field; returns the expression of its value."""
        match field.wire:
            case Fixed(code=code, size=size):
                return self.take(field.name, code, size)
            case Struct(entity=entity) if not field.nullable:
                return self.entity(entity)
            case Struct(entity=entity):
                return self._nullable_struct(entity, field.name)
            case Array(element=element):
                return self._array(element, field, path)
            case Variable() as wire:
                nullable = field.nullable or wire.default is None
                read = self._compact if self.flexible else self._legacy
                return read(wire, self.source.local(field.name), path, nullable)

    def _compact(self, wire: Variable, name: str, path: str, nullable: bool) -> str:
        length = self.take("n", "B", 1)
        self.flush(stay=1)
        is_text = wire.name == "string"
        empty = "''" if is_text else "b''"
        with self.source.block(f"if 1 < {length} < 128:"):
            self.source.line(f"{name} = b[p + 1:p + {length}]{_decode(wire)}")
            self.source.line(f"p += {length}")
        with self.source.block(f"elif {length} == 1:"):
            self.source.line(f"{name} = {empty}")
            self.source.line("p += 1")
        if nullable:
            with self.source.block(f"elif not {length}:"):
                self.source.line(f"{name} = None")
                self.source.line("p += 1")
        with self.source.block("else:"):
            read = "long_string" if is_text else "long_bytes"
            self.source.line(f"{name}, p = {read}(b, p, {path!r}, {nullable})")
        return name

    def _legacy(self, wire: Variable, name: str, path: str, nullable: bool) -> str:
        length = self.take("n", *(("h", 2) if wire.name == "string" else ("i", 4)))
        self.flush()
        with self.source.block(f"if {length} < 0:"):
            self.source.line(f"{name} = None" if nullable else f"raise null({path!r})")
        with self.source.block("else:"):
            self.source.line(f"{name} = b[p:p + {length}]{_decode(wire)}")
            self.source.line(f"p += {length}")
        return name

    def _nullable_struct(self, entity: type[Any], hint: str) -> str:
        name = self.source.local(hint)
        marker = self.take("marker", "b", 1)
        self.flush()
        with self.source.block(f"if {marker} < 0:"):
            self.source.line(f"{name} = None")
        with self.source.block("else:"):
            made = self.entity(entity)
            self.flush()
            self.source.line(f"{name} = {made}")
        return name

    def _count(self) -> str:
        """Read the count of an array."""
        if not self.flexible:
            count = self.take("n", "i", 4)
            self.flush()
            return count
        count = self.take("n", "B", 1)
        self.flush()
        with self.source.block(f"if {count} < 128:"):
            self.source.line(f"{count} -= 1")
        with self.source.block("else:"):
            self.source.line(f"{count}, p = compact_length(b, p - 1)")
        return count

    def _array(self, element: Wire | type[Any], field: FieldLayout, path: str) -> str:
        name = self.source.local(field.name)
        count = self._count()
        if not field.nullable:
            self._elements(element, field.name, path, name, count)
            return name
        with self.source.block(f"if {count} < 0:"):
            self.source.line(f"{name} = None")
        with self.source.block("else:"):
            self._elements(element, field.name, path, name, count)
        return name

    def _elements(
        self, element: Wire | type[Any], hint: str, path: str, name: str, count: str
    ) -> None:
        wire = Struct(element) if isinstance(element, type) else element
        one = FieldLayout(hint, wire, present=True, nullable=False, tag=None, default=None)
        size = max(_minimal(one, self.version, self.flexible), 1)
        with self.source.block(f"if not 0 <= {count} * {size} <= end - p:"):
            self.source.line(f"raise bad_count({path!r}, {count}, end - p)")
        self._counted(count)
        self._counted_array(count)
        if isinstance(wire, Fixed) and wire.code != "16s":
            self.source.line(f"{name} = list(unpack_from(f'>{{{count}}}{wire.code}', b, p))")
            self.source.line(f"p += {count} * {wire.size}")
            return
        self.source.line(f"{name} = []")
        with self.source.block(f"for _ in range({count}):"):
            self._rest()
            value = self.value(one, path)
            self.flush()
            self.source.line(f"{name}.append({value})")

    def _tagged_fields(self, tagged: dict[str, FieldLayout], entity: type[Any]) -> None:
        count = self.take("n", "B", 1)
        self.flush()
        for name, field in tagged.items():
            self.source.line(f"{name} = {self._default(field)}")
        with self.source.block(f"if {count}:"):
            self._counted("max(uvarint(b, p - 1)[0], 0)")
            if not tagged:
                self.source.line("p = skip_tagged_fields(b, p - 1, end)")
                return
            self.source.line(f"{count}, p = uvarint(b, p - 1)")
            with self.source.block(f"if {count} * 2 > end - p:"):
                self.source.line(f"raise bad_count('tagged fields', {count}, end - p)")
            with self.source.block(f"for _ in range({count}):"):
                self.source.line("tag, p = uvarint(b, p)")
                self.source.line("size, p = uvarint(b, p)")
                self._one_tagged_field(tagged, entity)

    def _one_tagged_field(self, tagged: dict[str, FieldLayout], entity: type[Any]) -> None:
        branch = "if"
        for name, field in tagged.items():
            with self.source.block(f"{branch} tag == {field.tag}:"):
                value = self.value(field, f"{entity.__name__}.{field.name}")
                self.flush()
                self.source.line(f"{name} = {value}")
            branch = "elif"
        with self.source.block("else:"):
            self.source.line("p = skip(p, end, size)")


class _SlicedWriter(_DecoderSource):
    """Writes a generator that counts elements before it reads them, and yields between them."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        super().__init__(source, version, flexible)
        self._depth = 0

    def _result(self, made: str) -> str:
        return f"{made}, left"

    def _counted(self, count: str) -> None:
        self.source.line(f"left -= {count}")
        with self.source.block("if left < 0:"):
            self.source.line("raise too_many('array elements', most)")

    def _counted_array(self, count: str) -> None:
        if self._depth > 1:
            return
        self.source.line(f"entries -= {count}")
        with self.source.block("if entries < 0:"):
            self.source.line("raise too_many('entries', most_entries)")

    def _elements(
        self, element: Wire | type[Any], hint: str, path: str, name: str, count: str
    ) -> None:
        self._depth += 1
        super()._elements(element, hint, path, name, count)
        self._depth -= 1

    def _rest(self) -> None:
        with self.source.block(f"if read >= {SLICE_ELEMENTS} or p > next_p:"):
            self.source.line("yield")
            self.source.line(f"read, next_p = 0, p + {SLICE_BYTES}")
        self.source.line("read += 1")


def _decode(wire: Variable) -> str:
    return '.decode("utf-8", "kafka")' if wire.name == "string" else ""


@cache
def _unpacker(codes: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    return Format(f">{codes}").unpack_from
