"""Options and output formats of the commands on groups."""

import json
from functools import partial
from typing import Any, Final, Literal, get_args

import click

from coordinator_server.cli.arguments import PATH


@click.group(no_args_is_help=True)
def groups() -> None:
    """Show and change consumer groups."""


DEFAULT_URL = "http://127.0.0.1:9404"
URL_VARIABLE = "COORDINATOR_HTTP"
"""Environment variable for the URL without --url.

It is not the envvar of --url, because --bootstrap-server must still be accepted with it.
"""


Format = Literal["text", "json", "yaml"]
"""Output format of a command."""

group_argument: Final = click.argument("group")
url_option: Final = click.option(
    "--url",
    "--http",
    help=f"The server's HTTP listener. [env: {URL_VARIABLE}; default: {DEFAULT_URL}]",
)
bootstrap_option: Final = click.option(
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT",
    help="A Kafka listener of any coordinator or broker, instead of --url.",
)
token_option: Final = click.option(
    "--token",
    envvar="COORDINATOR_ADMIN_TOKEN",
    show_envvar=True,
    help="The server's admin.token; needed over HTTP. Others may see it in the process list.",
)
token_file_option: Final = click.option(
    "--token-file", type=PATH, help="A file with the server's admin.token."
)
format_option: Final = click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Format)),
    default="text",
    help="How to print.",
)
topics_option: Final = partial(
    click.option,
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:0,1]",
    help="A topic, or some of its partitions.",
)
execute_option: Final = click.option(
    "--execute/--dry-run", default=False, help="Apply the change; otherwise only show it."
)


def show(form: Any, chosen: Format) -> bool:
    """Print a form as JSON or YAML; return False for text, which the command prints."""
    if chosen == "json":
        click.echo(json.dumps(form, indent=2))
    elif chosen == "yaml":
        import yaml

        text = yaml.safe_dump(form, sort_keys=False, allow_unicode=True)
        if not text.replace("\n", "").isprintable():
            # YAML does not escape characters that change the writing direction.
            text = yaml.safe_dump(form, sort_keys=False, allow_unicode=False)
        click.echo(text, nl=False)
    return chosen != "text"
