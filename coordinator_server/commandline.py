"""What all commands have in common: how they take paths, and how they fail."""

from pathlib import Path
from typing import Final, NoReturn

import click
from click.exceptions import Exit

PATH: Final = click.Path(path_type=Path)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one line: 1 if it did not work, 2 if its arguments are wrong."""
    click.echo(f"error: {message}", err=True)
    raise Exit(code)
