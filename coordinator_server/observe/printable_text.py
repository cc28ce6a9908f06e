"""Makes errors of the system and texts from clients printable."""

from typing import Final

_FIRST_ASTRAL: Final = 0x10000


def error_text(error: Exception) -> str:
    """The message of an error, without the errno of an OSError."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def printable(text: str) -> str:
    """Escape characters that control a terminal, end a line or change the writing direction.

    Clients choose their ids, which may contain escape sequences, line ends or U+202E.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else _escaped(c) for c in text])


def printable_json(document: str) -> str:
    """Escape the same characters in a one-line JSON document, with JSON's escapes."""
    if document.isprintable():
        return document
    return "".join([c if c.isprintable() else _json_escaped(c) for c in document])


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _json_escaped(character: str) -> str:
    code = ord(character)
    if code < _FIRST_ASTRAL:
        return f"\\u{code:04x}"
    code -= _FIRST_ASTRAL
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
