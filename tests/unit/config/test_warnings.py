"""Settings that have no effect: who is told of them, and how a start that fails tells all."""

import subprocess
import sys

import pytest

from coordinator_server.config import ConfigError, load, load_exactly


def test_unknown_properties_are_warned_about_with_a_suggestion() -> None:
    warnings = load(settings=["group.max.siz=3", "zzz=1"], environ={}).warnings
    assert warnings == (
        "group.max.siz (--set): no such property, did you mean group.max.size?",
        "zzz (--set): no such property",
    )


def test_unknown_properties_are_told_beside_what_is_wrong() -> None:
    with pytest.raises(ConfigError) as caught:
        load(settings=["nosuch=1", "node.id=x"], environ={})
    assert caught.value.warnings == ("nosuch (--set): no such property",)
    assert str(caught.value) == "node.id=x (--set): expected an integer of at least 0"


def test_settings_in_a_program_are_wrong_where_they_would_be_warned_about() -> None:
    assert load_exactly({"node.id": "7"}, "test").node_id == 7
    with pytest.raises(ConfigError) as caught:
        load_exactly({"nosuch": "1", "node.id": "x", "group.max.size": 2}, "test")
    assert list(map(str, caught.value.problems)) == [
        "group.max.size=2 (test): expected a text",
        "node.id=x (test): expected an integer of at least 0",
        "nosuch (test): no such property",
    ]


def test_kafkas_properties_that_are_not_used_are_accepted_in_silence() -> None:
    environ = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "PATH": "/bin",
    }
    assert load(environ=environ, settings=["listener.name.a.ssl.key.password=x"]).warnings == ()


def test_an_authorizer_is_never_ignored_in_silence() -> None:
    (warning,) = load(settings=["authorizer.class.name=a.b.C"], environ={}).warnings
    assert "every client may do everything" in warning


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coordinator_server", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_wrong_settings_end_the_command_with_2_and_a_line_each() -> None:
    ended = _run("run", "--set", "group.max.size=0", "--set", "node.id=x")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert sorted(ended.stderr.splitlines()) == [
        "error: group.max.size=0 (--set): expected an integer of at least 1",
        "error: node.id=x (--set): expected an integer of at least 0",
    ]


def test_unknown_names_have_a_line_too_where_the_command_ends() -> None:
    ended = _run("run", "--set", "nosuch=1", "--set", "node.id=x")
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "warning: nosuch (--set): no such property",
        "error: node.id=x (--set): expected an integer of at least 0",
    ]
