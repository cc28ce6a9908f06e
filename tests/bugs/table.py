"""Prints docs/bugs.md from the docstrings of the tests: `python -m tests.bugs.table`.

A docstring begins with numbers and reports: "B1, KAFKA-9752. More if need be", and "; B2, ..." for
a further one.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "bugs.md"

NUMBERS = range(1, 63)
NOT_THERE: Mapping[int, tuple[str, str]] = {}
"""What no test covers: the report and why."""

IN_PART: Mapping[int, str] = {
    40: "transactional commits are loaded, not taken",
    47: "as 40: WriteTxnMarkers is not served",
    53: "one node: what a cluster has to do is shown of two owners of one log",
    55: "as in Kafka the error names no partition, which librdkafka #5586 would have it do",
    58: "requests as clients send them; tests/clients has real ones",
}
"""What the tests leave out."""

_CITED = re.compile(r"B(\d+), (.+?)(?=; B\d|\. |\.$)")


class Case(NamedTuple):
    """A test, and one of the reports it cites."""

    number: int
    reports: tuple[str, ...]
    file: str
    test: str


def cases() -> Iterator[Case]:
    """Every citation in the docstring of a test of this folder; raises ValueError without any."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                node.name.startswith("test_") and path.name != "test_table.py"
            ):
                yield from _cited(path.name, node)


def _cited(file: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Case]:
    found = _CITED.findall((ast.get_docstring(node) or "").partition("\n")[0])
    if not found:
        raise ValueError(f"{file}, {node.name}: no report is cited, as in 'B1, KAFKA-9752.'")
    for number, reports in found:
        yield Case(int(number), tuple(reports.split(", ")), file, node.name)


def page() -> str:
    """The page as it should be."""
    by_number: dict[int, list[Case]] = {number: [] for number in NUMBERS}
    for case in cases():
        by_number[case.number].append(case)
    lines = [
        "# Hard bugs of other coordinators",
        "",
        "<!-- Printed by `python -m tests.bugs.table`; a test compares. -->",
        "",
        "What went wrong in Kafka, Redpanda, franz-go's kfake and others, by public reports, and",
        "the tests that show it right here. Judged by what a client observes: where a report",
        "speaks of undoing what a failed append has changed, here the partition is loaded again.",
        "",
        "| | reports | tests in `tests/bugs` |",
        "|--:|---|---|",
        *(_row(number, found) for number, found in by_number.items()),
    ]
    return "\n".join(lines) + "\n"


def _row(number: int, found: list[Case]) -> str:
    if number in NOT_THERE:
        reports, why = NOT_THERE[number]
        return f"| {number} | {reports} | none: {why} |"
    reports = ", ".join(dict.fromkeys(report for case in found for report in case.reports))
    tests = [f"`{case.file}`: {_sentence(case.test)}" for case in found]
    if number in IN_PART:
        tests.append(f"({IN_PART[number]})")
    return f"| {number} | {reports} | {'<br>'.join(tests)} |"


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
