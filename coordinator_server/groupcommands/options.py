"""What the commands on groups have in common: their options, and how they fail and print."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

groups = typer.Typer(help="Look at consumer groups, and change them.", no_args_is_help=True)

DEFAULT_URL = "http://127.0.0.1:9404"
URL_VARIABLE = "COORDINATOR_HTTP"
"""Says where HTTP is, below --url. No option's own, so that --bootstrap-server goes with it."""


class Format(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        "--http",
        help=f"The server's HTTP listener. [env: {URL_VARIABLE}; default: {DEFAULT_URL}]",
    ),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="A Kafka listener of any coordinator or broker, instead of --url.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="COORDINATOR_ADMIN_TOKEN",
        help="The server's admin.token; needed over HTTP. Others may see it in the process list.",
    ),
]
TokenFileOption = Annotated[
    Path | None, typer.Option("--token-file", help="A file with the server's admin.token.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one line: 1 if it did not work, 2 if its arguments are wrong."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def show(form: Any, chosen: Format) -> bool:
    """Print a form as JSON or YAML; False if it is to be text, which is the command's affair."""
    if chosen is Format.JSON:
        typer.echo(json.dumps(form, indent=2))
    elif chosen is Format.YAML:
        import yaml

        typer.echo(yaml.safe_dump(form, sort_keys=False, allow_unicode=True), nl=False)
    return chosen is not Format.TEXT
