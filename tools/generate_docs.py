"""Prints the pages of `docs/` that are made from code; `--check` compares and exits with 1."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from coordinator_server.cli.main import run
from coordinator_server.config.model import PROPERTIES, PropertyDefinition
from coordinator_server.config.own import OWN
from coordinator_server.config.sources import DEV_SETTINGS
from tools.apis_page import apis_page
from tools.compatibility_page import compatibility_page
from tools.metrics_page import metrics_page
from tools.openapi_page import openapi_page
from tools.states_page import states_page
from tools.tables_page import tables_page

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Printed by `make docs`; `make check` compares. -->"


def config_page() -> str:
    """Every property, from the model's fields."""
    dev = ", ".join(f"`{name}={value}`" for name, value in DEV_SETTINGS.items())
    lines = [
        "# Configuration",
        "",
        NOTE,
        "",
        "Properties have Kafka's names and meaning; those marked with * are this server's own.",
        "They are read, each source over the one before, from",
        "",
        f"1. the defaults below; with `--dev` {dev} and `log.dirs` in a temporary folder",
        "2. a file in the syntax of `server.properties`: `--config FILE`",
        "3. the environment, as in Kafka's image: `KAFKA_` and the name in capitals with `_` for a",
        "   dot, `__` for `_` and `___` for `-`",
        "4. `--set NAME=VALUE`",
        f"5. flags: {', '.join(_flags())}",
        "",
        "A wrong value ends the start with exit code 2; all of them are reported at once. A name",
        "that neither Kafka 4.1.1 nor this server knows is warned about; properties of Kafka that",
        "are not used here are accepted in silence, but for `authorizer.class.name`: ignoring it",
        "unsaid would open a door.",
        "",
        "| property | default | takes | what it does |",
        "|---|---|---|---|",
        *(_config_row(name, known) for name, known in PROPERTIES.items()),
    ]
    return "\n".join(lines) + "\n"


def _flags() -> Iterator[str]:
    """The options of `run` that stand for a property, in the order of its help."""
    sources = {"config", "settings", "dev"}
    yield from (f"`{option.opts[0]}`" for option in run.params if option.name not in sources)


def _config_row(name: str, known: PropertyDefinition) -> str:
    star = "\\*" if name in OWN else ""
    default = known.kind.show(known.default)
    shown = f"`{default}`" if default else ""
    return f"| `{name}`{star} | {shown} | {known.kind.takes} | {known.doc} |"


PAGES: dict[str, Callable[[], str]] = {
    "docs/config.md": config_page,
    "docs/metrics.md": lambda: metrics_page(NOTE),
    "docs/apis.md": lambda: apis_page(NOTE),
    "docs/compatibility.md": lambda: compatibility_page(NOTE),
    "docs/openapi.yaml": lambda: openapi_page(NOTE),
    "docs/pipeline-tables.md": lambda: tables_page(NOTE),
    "docs/states.md": lambda: states_page(NOTE),
}


def stale_pages() -> list[str]:
    """The pages that are not what the code prints."""
    return [
        name
        for name, page in PAGES.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != page()
    ]


def main() -> None:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    stale = stale_pages()
    for name in stale:
        if check:
            print(f"{name} is not what the code prints: run `make docs`")
        else:
            (ROOT / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"{name} written")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
