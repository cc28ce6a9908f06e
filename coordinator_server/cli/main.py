"""The command line. Commands import their modules when they run, so the server starts without rich.

Exit codes: 0 success, 1 failure, 2 wrong settings or arguments.
"""

import contextlib
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.exceptions import Exit

from coordinator_server import __version__
from coordinator_server.cli.arguments import PATH, fail
from coordinator_server.observe.printable_text import error_text, printable

if TYPE_CHECKING:
    from coordinator_server.config import Config

_LAZY_COMMANDS: Final = {
    "groups": "coordinator_server.cli.groups",
    "log": "coordinator_server.log_tools.commands",
}
"""Modules of the command groups, by the name of the group and of its variable."""


class _Commands(click.Group):
    """Imports command groups when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted([*super().list_commands(ctx), *_LAZY_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with a name."""
        if cmd_name not in _LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(_LAZY_COMMANDS[cmd_name]), cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"show_default": True})
@click.version_option(__version__, message="%(version)s", help="Print it and exit.")
def app() -> None:
    """A standalone Kafka group coordinator."""


LONGEST_TIMEOUT = 3600
"""Longest --timeout and --wait of `healthcheck` in seconds."""


@app.command()
@click.option("--config", type=PATH, help="A file like Kafka's server.properties.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a property; may be repeated.",
)
@click.option("--listeners", help="As --set listeners=...")
@click.option("--log-dirs", help="As --set log.dirs=...")
@click.option("--workers", type=int, metavar="N", help="As --set workers=N")
@click.option(
    "--dev", is_flag=True, help="No initial rebalance delay; data in a temporary directory."
)
def run(
    config: Path | None,
    settings: tuple[str, ...],
    listeners: str | None,
    log_dirs: str | None,
    workers: int | None,
    dev: bool,
) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT."""
    flags = {
        name: value
        for name, value in {
            "listeners": listeners,
            "log.dirs": log_dirs,
            "workers": None if workers is None else str(workers),
        }.items()
        if value is not None
    }
    with _presets(dev) as presets:
        code = _run(presets, config, settings, flags)
    raise Exit(code)


@contextlib.contextmanager
def _presets(dev: bool) -> Iterator[dict[str, str]]:
    """Settings of `--dev`; its data directory is removed when the server ends."""
    if not dev:
        yield {}
        return
    from coordinator_server.config import DEV_SETTINGS
    from coordinator_server.server.dev_data_dir import temporary_data_dir

    with temporary_data_dir() as data:
        yield {**DEV_SETTINGS, "log.dirs": str(data)}


def _run(
    presets: Mapping[str, str],
    file: Path | None,
    settings: Sequence[str],
    flags: Mapping[str, str],
) -> int:
    import threading

    _disable_collector()
    from coordinator_server.config import ConfigError, advertised_warnings, load

    try:
        config, warnings = load(presets=presets, file=file, settings=settings, flags=flags)
    except ConfigError as error:
        for warning in error.warnings:
            click.echo(f"warning: {warning}", err=True)
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        return 2
    from coordinator_server.observe import log as lines

    lines.configure(level=config.log_level, line_format=config.log_format)
    logger = lines.get_logger()
    for warning in warnings:
        logger.warning("config_warning", message=warning)

    def look_up_advertised() -> None:
        for warning in advertised_warnings(config.listeners, config.advertised()):
            logger.warning("advertised_listener_warning", message=warning)

    from coordinator_server.server import run as serving
    from coordinator_server.server.process_limits import TooFewFiles, limit_reached

    def read() -> "tuple[Config, Sequence[str]]":
        return load(presets=presets, file=file, settings=settings, flags=flags)

    try:
        # The name server may be slow; the start must not wait for it.
        threading.Thread(target=look_up_advertised, daemon=True).start()
        if config.workers == 1:
            return serving.main(config, read)
        from coordinator_server.workers import supervisor

        return supervisor.main(config, read)
    except TooFewFiles as error:
        logger.error("cannot_run", error=str(error))
        return 2
    except (OSError, serving.CannotStart) as error:
        logger.error("cannot_run", error=error_text(error))
        return 1
    except (MemoryError, RuntimeError) as error:
        limit = limit_reached(error)
        if limit is None:
            raise
        logger.error("cannot_run", error=limit)
        return 1


def _disable_collector() -> None:
    """A start mostly imports modules, which leaves no garbage."""
    gc.disable()  # until `serving.freeze_heap`


@app.command()
@click.option("--bootstrap", default="127.0.0.1:9092", help="A Kafka listener of the server.")
@click.option("--timeout", default=5.0, help="Seconds per step.")
@click.option(
    "--wait",
    type=float,
    metavar="SECONDS",
    help="Wait up to so long until all groups are loaded.",
)
def healthcheck(bootstrap: str, timeout: float, wait: float | None) -> None:
    """Exit with 0 if the server names a group coordinator, else with 1."""
    from coordinator_server.cli.healthcheck import Unhealthy, find_coordinator, wait_until_ready
    from coordinator_server.config.listeners import parse_address

    try:
        address = parse_address(bootstrap)
    except ValueError as error:
        fail(f"--bootstrap: {error}", code=2)
    for option, seconds in (("--timeout", timeout), ("--wait", wait)):
        if seconds is not None and not 0 < seconds <= LONGEST_TIMEOUT:
            fail(f"{option} {seconds:g}: expected more than 0, at most {LONGEST_TIMEOUT}", code=2)
    try:
        if wait is None:
            coordinator = find_coordinator(address.host, address.port, timeout)
        else:
            coordinator = wait_until_ready(address.host, address.port, timeout, wait)
    except Unhealthy as error:
        fail(str(error))
    click.echo(f"coordinator at {coordinator}")


def main() -> None:
    """The entry point of the console script."""
    try:
        code = app.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = 130
    except UnicodeEncodeError as error:
        # An argument is not UTF-8 and cannot be part of a request.
        click.echo(f"error: {error.object!a}: expected UTF-8", err=True)
        code = 2
    except OSError as error:
        # For example a path argument below a directory that cannot be read.
        click.echo(f"error: {printable(error_text(error))}", err=True)
        code = 1
    if "coordinator_server.server.run" in sys.modules:
        from coordinator_server.server.run import exit_now

        # Freeing the objects of a large server would take seconds.
        exit_now(code or 0)
    sys.exit(code)
