"""Reads the file with the token for requests that change groups."""

from pathlib import Path
from typing import Final

MOST_CHARS: Final = 65_536


def token_in(path: Path) -> str:
    """The token in a file. Raises ValueError if the file is unreadable or has no token."""
    try:
        with path.open(encoding="utf-8") as file:
            # A device such as /dev/zero has no end.
            text = file.read(MOST_CHARS + 1)
    except OSError as error:
        raise ValueError(f"{error.strerror}, expected a file with a token") from error
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8, expected a token") from error
    if len(text) > MOST_CHARS:
        raise ValueError(f"more than {MOST_CHARS} characters, expected a token")
    if not text.strip():
        raise ValueError("empty, expected a token")
    return text.strip()
