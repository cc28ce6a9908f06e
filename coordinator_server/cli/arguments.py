"""Paths, output and failure of all commands."""

from pathlib import Path
from typing import Final, NoReturn

import click
from click.exceptions import Exit

from coordinator_server.observe.printable_text import printable

PATH: Final = click.Path(path_type=Path)


def say(line: str, *, err: bool = False) -> None:
    """Print a line; control characters from client ids are escaped."""
    click.echo(printable(line), err=err)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one line; code 1: it failed, code 2: its arguments are wrong."""
    say(f"error: {message}", err=True)
    raise Exit(code)
