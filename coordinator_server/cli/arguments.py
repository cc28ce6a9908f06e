"""What all commands have in common: how they take paths, and how they fail."""

from pathlib import Path
from typing import Final, NoReturn

import click
from click.exceptions import Exit

from coordinator_server.observe.printable_text import printable

PATH: Final = click.Path(path_type=Path)


def say(line: str, *, err: bool = False) -> None:
    """Print a line, which may name ids of clients, without letting them control the terminal."""
    click.echo(printable(line), err=err)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one line: 1 if it did not work, 2 if its arguments are wrong."""
    say(f"error: {message}", err=True)
    raise Exit(code)
