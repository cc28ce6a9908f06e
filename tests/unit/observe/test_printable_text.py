"""Ids of clients neither control a terminal nor make lines or turn the writing round."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from coordinator_server.cli.arguments import say
from coordinator_server.cli.group_report import print_why
from coordinator_server.cli.groups.options import show
from coordinator_server.cli.groups.tables import print_table
from coordinator_server.observe import log
from coordinator_server.observe.printable_text import printable, printable_json

EVIL = "a\x1b]0;owned\x07\x9b31m\u202eb\u2066\r\nforged line\x7f\u2028\U000e0001"
"""Escape sequences of 7 and 8 bits, bidirectional controls, line ends, an invisible tag."""

SHOWN = r"a\x1b]0;owned\x07\x9b31m\u202eb\u2066\r\nforged line\x7f\u2028\U000e0001"


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_escapes_take_the_place_of_what_controls() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("\ud800") == r"\ud800"


@pytest.mark.parametrize("text", ["orders", "Müller 注文 🎉", ""])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


def test_json_stays_json() -> None:
    document = json.dumps({"group": EVIL}, ensure_ascii=False)
    assert is_harmless(printable_json(document))
    assert json.loads(printable_json(document)) == {"group": EVIL}


def test_command_lines_print_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"group {EVIL} rebalances")
    print_table(("GROUP", ">N"), [(EVIL, 1)])
    group: dict[str, Any] = {
        "group": EVIL,
        "state": "Stable",
        "members": [],
        "current": None,
        "findings": [{"sentence": f"{EVIL} flaps"}],
        "refusals": [],
        "rebalances": [],
        "protocol": EVIL,
        "generation": 1,
    }
    print_why(group)
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert told.count("forged line") == told.count(SHOWN) >= 3
    assert not any(line.startswith("forged") for line in told.splitlines())


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_forms_are_read_back_as_they_were(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    assert show({"group": EVIL}, form)
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert (json.loads(told) if form == "json" else yaml.safe_load(told)) == {"group": EVIL}


@pytest.fixture
def written() -> Iterator[Any]:
    reading, writing = os.pipe()

    def lines() -> list[str]:
        log.close()
        return os.read(reading, 1 << 16).decode().splitlines()

    log.configure(line_format="console", fd=writing)
    yield lines
    log.close()
    os.close(reading)
    os.close(writing)


def test_a_line_of_the_console_log_is_one_line(written: Any) -> None:
    log.get_logger().warning("session_ended", client_id=EVIL, groups=[EVIL], count=3)
    (line,) = written()
    assert line.isprintable()
    # structlog quotes what has a backslash in it, and so escapes the escapes.
    assert SHOWN.replace("\\", "\\\\") in line
    assert "count=3" in line


def test_a_traceback_in_the_console_log_has_its_lines_and_no_controls(written: Any) -> None:
    try:
        int(EVIL.replace("\n", ""))
    except ValueError:
        log.get_logger().exception("request_failed")
    lines = written()
    assert len(lines) > 3
    assert all(line.isprintable() for line in lines)
