"""What each surface says of the rebalances of a group, the oldest first, in the script's words."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from playwright.async_api import Page, async_playwright

from coordinator_server.cli.rebalance_sentences import CAUSES
from tests.clients.story.script import Story, said
from tests.support.client_processes import ROOT
from tests.support.server import ServerProcess

Told = Mapping[str, list[str]]
"""By group."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_NAME = r"(?P<client>\S+?)(?:-[0-9a-f]+\u2026)?(?: \[(?P<instance>.+)\])? at \S+?"
_BECAUSE = re.compile(r"^  because (.+?)(?: \(reason given: .*\))?$", re.MULTILINE)
_CLAUSES = {
    reason: re.compile(clause.replace(".", r"\.").replace("{}", _NAME))
    for reason, clause in CAUSES.items()
}


def read_all(story: Story) -> dict[str, Told]:
    """Every surface; the server is stopped before its files are read."""
    told: dict[str, Told] = {"HTTP API": _api(story), "CLI": _cli(story)}
    if CHROMIUM is not None:
        told["page"] = asyncio.run(_page(story, CHROMIUM))
    assert story.server.terminate() == 0, story.server.log_tail()
    told["log line"] = _log_lines(story.server)
    records = _dumped(story.server)
    told["record header"] = _headers(records)
    told["history record"] = _history(records)
    order = ("log line", "record header", "history record", "HTTP API", "page", "CLI")
    return {surface: told[surface] for surface in order if surface in told}


def costs(story: Story) -> list[str]:
    """Where the outcome, who was waited for or who was given up is not as in the script."""
    wrong = []
    for group in story.groups():
        rows = [row for row in story.rows if row.group == group and row.reason]
        for row, event in zip(rows, story.timeline(group), strict=False):
            evicted = [member["client_id"] for member in event["evicted"]]
            waited = [member["client_id"] for member in event["waited_for"]]
            gone = row.client if row.reason == "session_expired" else row.evicted
            if (
                event["outcome"] != row.outcome
                or evicted != ([gone] if gone else [])
                or (row.waited_for and row.waited_for not in waited)
            ):
                wrong.append(f"{row}: {event}")
    return wrong


def _of(form: Mapping[str, Any]) -> str:
    """In the form that the log line, the history record and the API share."""
    culprit = form["culprit"]
    return said(form["reason"], culprit["client_id"], culprit["group_instance_id"])


def _api(story: Story) -> Told:
    return {group: [_of(event) for event in story.timeline(group)] for group in story.groups()}


def _cli(story: Story) -> Told:
    """`groups why`, as people read it."""
    return {group: _why(story.server, group) for group in story.groups()}


def _why(server: ServerProcess, group: str) -> list[str]:
    url = f"http://127.0.0.1:{server.http_port}"
    out = _run("groups", "why", group, "--url", url, "--limit", "100")
    return [_cause(each[1]) for each in _BECAUSE.finditer(out)][::-1]


def _cause(clause: str) -> str:
    for reason, pattern in _CLAUSES.items():
        if found := pattern.fullmatch(clause):
            return said(reason, found["client"], found["instance"])
    raise AssertionError(f"unknown cause: {clause!r}")


def _run(*arguments: str) -> str:
    command = [sys.executable, "-m", "coordinator_server", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{' '.join(arguments)}: {ended.stderr}"
    return ended.stdout


def _log_lines(server: ServerProcess) -> Told:
    told = defaultdict(list)
    for line in server.log_text().splitlines():
        entry = json.loads(line)
        if entry["event"] == "rebalance":
            told[entry["group"]].append(_of(entry))
    return told


def _dumped(server: ServerProcess) -> list[Any]:
    """Every record of the segment files."""
    out = _run("log", "dump", "--data", str(server.directory / "data"))
    return [json.loads(line) for line in out.splitlines()]


def _of_type(records: Iterable[Any], kind: str) -> list[Any]:
    return [record for record in records if record["key"]["type"] == kind and record["value"]]


def _headers(records: Iterable[Any]) -> Told:
    told = defaultdict(list)
    for record in _of_type(records, "group_metadata"):
        found = record["headers"]
        if "rb.reason" in found:
            words = said(found["rb.reason"], found["rb.client"], found.get("rb.instance"))
            told[record["key"]["group"]].append(words)
    return told


def _history(records: Iterable[Any]) -> Told:
    told = defaultdict(list)
    for record in _of_type(records, "rebalance_history"):
        told[record["key"]["group"]].append(_of(record["value"]))
    return told


# --- the page ---

_ROWS = """() => [...document.querySelectorAll('table')]
    .find((table) => table.caption.textContent.startsWith('Rebalances'))
    .querySelectorAll('tbody tr').values().map((row) => [
        row.cells[2].querySelector('.reason').lastChild.textContent,
        row.cells[3].querySelector('.member b').textContent,
        row.cells[3].querySelector('.member .quiet').textContent,
    ]).toArray()"""


async def _page(story: Story, chromium: str) -> Told:
    told = {}
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = await browser.new_page()
        for group in story.groups():
            told[group] = await _shown(page, story.server, group)
        await browser.close()
    return told


async def _shown(page: Page, server: ServerProcess, group: str) -> list[str]:
    await page.goto(f"http://127.0.0.1:{server.http_port}/#/groups/{quote(group)}")
    await page.locator("h1", has_text=group).wait_for()
    await page.locator("svg.timeline").wait_for()
    fold = page.locator("#fold")
    if await fold.count():
        await fold.click()
    lines = []
    for reason, name, rest in await page.evaluate(_ROWS):
        # `client address`, or `instance client · address`.
        client, _, host = rest.rpartition(" · ")
        instance = name if host != rest else None
        lines.append(said(reason.replace(" ", "_"), client or name, instance))
    return lines[::-1]
