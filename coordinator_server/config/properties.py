"""The syntax of `server.properties`: that of java.util.Properties, read as UTF-8."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLANKS = " \t\f"
_COMMENTS = ("#", "!")
_KEY = re.compile(r"(?:[^\\=:\s]|\\.)*")
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{0,4}|.)")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertyLine(NamedTuple):
    """A property of a file and the number of its first line."""

    line: int
    name: str
    value: str


def parse_properties(text: str) -> Iterator[PropertyLine]:
    """The properties of a file in their order.

    Raises:
        ValueError: for a broken unicode escape, with the line's number.
    """
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        try:
            yield PropertyLine(number, _unescape(key[0]), _unescape(line[separator.end() :]))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, joined where they end in a backslash that is not escaped."""
    joined, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(_BLANKS)
        if not first and (not line or line.startswith(_COMMENTS)):
            continue
        first = first or number
        if _continues(line):
            joined += line[:-1]
            continue
        yield first, joined + line
        joined, first = "", 0
    if first:
        yield first, joined


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = match[1]
    if not code.startswith("u"):
        return _CONTROLS.get(code, code)
    if len(code) != len("uXXXX"):
        raise ValueError(f"\\{code} is not an escape, expected four hexadecimal digits after \\u")
    return chr(int(code[1:], 16))
