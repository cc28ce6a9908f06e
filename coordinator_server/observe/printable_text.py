"""How errors of the system, and texts of clients, are told to people."""

from typing import Final

_ASTRAL: Final = 0x10000


def words(error: Exception) -> str:
    """What an operator reads of it: no numbers of the system's errors."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def printable(text: str) -> str:
    """A text with escapes in place of characters that control a terminal or the order of writing.

    Clients choose their ids: an escape sequence would reach the terminal, a line end would make
    lines of its own, and U+202E would turn what follows round.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else _escaped(c) for c in text])


def printable_json(document: str) -> str:
    """JSON in one line in which every such character is escaped as JSON has it."""
    if document.isprintable():
        return document
    return "".join([c if c.isprintable() else _json_escaped(c) for c in document])


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _json_escaped(character: str) -> str:
    code = ord(character)
    if code < _ASTRAL:
        return f"\\u{code:04x}"
    code -= _ASTRAL
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
