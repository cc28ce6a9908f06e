"""Prints `docs/compatibility.md` from its data, the registry of APIs and the configuration."""

import ast
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from coordinator_server.api.registry import REGISTRY
from coordinator_server.config.model import PROPERTIES
from tests.specification.table import TABLE
from tools.apis_page import versions

ROOT: Final = Path(__file__).resolve().parent.parent
WORDS: Final = {
    "same": "same as Kafka",
    "different": "**different on purpose**",
    "absent": "*not there*",
}

INTRODUCTION = """\
What Apache Kafka 4.1.1's group coordinator does for classic groups and offsets, and what this
server makes of it. Where it differs on purpose, [decisions.md](decisions.md) says more; what is
not there yet is in [limitations.md](limitations.md).

*Tested by* names what fails when a row is not true any more:

- `oracle:...`: Kafka's own answers, recorded, compared with ours (`make oracle`)
- `states:...`: a row of the [table of states and events](states.md), tried on a group
- anything else: a test below `tests/`
"""


@dataclass(frozen=True, slots=True)
class Feature:
    """One row."""

    what: str
    status: str
    """`same`, `different` or `absent`."""
    why: str = ""
    note: str = ""
    decision: str = ""
    """How a line of decisions.md begins that says more."""
    tests: tuple[str, ...] = ()


@cache
def data() -> dict[str, Any]:
    """What is not found in code."""
    return tomllib.loads((ROOT / "docs/compatibility.toml").read_text(encoding="utf-8"))


def sections() -> Iterator[tuple[str, list[Feature]]]:
    """Every section with its rows, in the order of the page."""
    yield "APIs", [_api(api) for api in data()["api"]]
    for section in data()["section"]:
        yield section["title"], [_feature(row) for row in section["row"]]
    yield "Configuration", [_property(name) for name in data()["property"]]


def _feature(row: dict[str, Any]) -> Feature:
    return Feature(**{**row, "tests": tuple(row.get("tests", ()))})


def _api(row: dict[str, Any]) -> Feature:
    """An API; whether it is the same is known to the registry."""
    api = REGISTRY.get(row["key"])
    served = None if api is None else versions(api)
    kafka: str = row["kafka"]
    if served is None:
        status, what = "absent", f"`{row['name']}` ({row['key']}), versions {kafka}"
    elif served == kafka:
        status, what = "same", f"`{row['name']}` ({row['key']}), versions {kafka}"
    else:
        what = f"`{row['name']}` ({row['key']}), versions {kafka}; here {served}"
        status = "different"
    return Feature(
        what, status, row.get("why", ""), row.get("note", ""), tests=tuple(row.get("tests", ()))
    )


def _property(name: str) -> Feature:
    """A property; whether it is the same is known to the configuration."""
    kafka: str = data()["property"][name]
    known = PROPERTIES.get(name)
    if known is None:
        unused = data()["unused"].items()
        why = next((why for pattern, why in unused if fnmatchcase(name, pattern)), "")
        return Feature(f"`{name}={kafka}`", "absent", why)
    default = known.kind.show(known.default)
    if default == kafka:
        return Feature(f"`{name}={kafka}`", "same", tests=CONFIG_TESTS)
    return Feature(f"`{name}={kafka}`", "different", f"here {default}", tests=CONFIG_TESTS)


CONFIG_TESTS: Final = ("unit/config/test_config.py::test_defaults_are_kafkas_but_local",)


# --- the page ---


def compatibility_page(note: str) -> str:
    """The whole page."""
    lines = ["# Compatibility with Kafka", "", note, "", INTRODUCTION, *_summary()]
    for title, features in sections():
        lines += ["", f"## {title}", "", "| what Kafka does | here | tested by |", "|---|---|---|"]
        lines += map(_row, features)
    return "\n".join(lines) + "\n"


def _summary() -> Iterator[str]:
    yield f"| | {' | '.join(WORDS.values())} |"
    yield "|---|--:|--:|--:|"
    for title, features in sections():
        counts = (sum(f.status == status for f in features) for status in WORDS)
        yield f"| {title} | {' | '.join(map(str, counts))} |"


def _row(feature: Feature) -> str:
    here = WORDS[feature.status]
    if feature.why:
        here += f": {feature.why}"
    if feature.decision:
        here += " ([more](decisions.md))"
    if feature.note:
        here += f"; {feature.note}"
    tests = "<br>".join(f"`{test}`" for test in feature.tests)
    return f"| {feature.what} | {here} | {tests} |"


# --- what is named has to exist ---


def mistakes() -> Iterator[str]:
    """What is wrong with the data, in words."""
    listed = {api["key"] for api in data()["api"]}
    yield from (f"API {key} is served and not listed" for key in REGISTRY if key not in listed)
    decisions = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    for title, features in sections():
        for feature in features:
            for mistake in _mistakes(feature, decisions):
                yield f"{title}: {feature.what!r} {mistake}"


def _mistakes(feature: Feature, decisions: str) -> Iterator[str]:
    if feature.status not in WORDS:
        yield f"is {feature.status!r}, expected one of {', '.join(WORDS)}"
        return
    if feature.status == "same" and feature.why:
        yield "is the same, and yet says why it is not"
    if feature.status != "same" and not feature.why:
        yield f"is {feature.status} and does not say why"
    if feature.status != "absent" and not feature.tests:
        yield "is not tested"
    if feature.decision and feature.decision not in decisions:
        yield f"refers to {feature.decision!r}, which is not in decisions.md"
    for test in feature.tests:
        if not _exists(test):
            yield f"is tested by {test!r}, which does not exist"


def _exists(test: str) -> bool:
    kind, _, name = test.partition(":")
    match kind:
        case "oracle":
            return any(fnmatchcase(scenario, name) for scenario in _scenarios())
        case "states":
            return any(row.key == name for row in TABLE)
        case _:
            path, _, function = test.partition("::")
            return function in _functions(path)


@cache
def _scenarios() -> frozenset[str]:
    """The scenarios that were recorded."""
    golden = (ROOT / "tests/oracle/golden").glob("*.json")
    return frozenset(name for file in golden for name in json.loads(file.read_text("utf-8")))


@cache
def _functions(path: str) -> frozenset[str]:
    """The functions a file of tests defines, none if there is no such file."""
    file = ROOT / "tests" / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
