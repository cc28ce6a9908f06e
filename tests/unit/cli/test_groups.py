"""The commands on groups, over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator_server.cli.group_report import when, why_lines
from tests.support.canned_http import ANSWERS, BOB, CHANGES
from tests.support.commandline import closed_port, invoke


def test_groups_are_listed_one_per_line(http: str) -> None:
    code, out, _ = invoke("groups", "list", "--http", http)
    header, first, second, _, finding = out.splitlines()
    assert code == 0
    assert finding == "client 'bob' made group 'a/b' rebalance 7 times"
    assert header.split()[:3] == ["GROUP", "STATE", "PROTOCOL"]
    assert first.split()[:5] == ["a/b", "Stable", "range", "2", "2"]
    assert first.rstrip().endswith("member_joined")
    assert second.rstrip().endswith("-")


def test_a_group_of_one_has_one_member() -> None:
    group = {"group": "g", "state": "Stable", "generation": 1, "protocol": "range"}
    told: dict[str, Any] = {"findings": [], "rebalances": [], "refusals": []}
    first = next(iter(why_lines({**group, **told, "members": [BOB]})))
    assert first == "group g: Stable, generation 1, 1 member, protocol range"


def test_why_names_reason_culprit_and_cost(http: str) -> None:
    code, out, _ = invoke("groups", "why", "a/b", "--http", http)
    assert code == 0
    at = when(1_700_000_000_000)
    because = "because it sent generation 7, the group is at 8"
    assert out.splitlines() == [
        "group a/b: Stable, generation 2, 2 members, protocol range",
        (
            f"rebalancing since {at} because bob [bob] at 10.0.0.2 joined; "
            "it waits for alice at 10.0.0.1"
        ),
        "client 'bob' made group 'a/b' rebalance 7 times",
        "",
        (f"1 heartbeat of bob [bob] at 10.0.0.2 was answered ILLEGAL_GENERATION at {at} {because}"),
        (
            "3 heartbeats of bob [bob] at 10.0.0.2 were answered ILLEGAL_GENERATION "
            f"from {at} to {at[-8:]} {because}"
        ),
        "",
        (f"{at}: generation 1 -> 2 completed in 60 ms (join 40 ms, sync 20 ms), members 1 -> 2"),
        '  because bob [bob] at 10.0.0.2 joined (reason given: "rolling upgrade")',
        "  restarted because the session of alice at 10.0.0.1 expired",
        f"  evicted: {', '.join(['carol at 10.0.0.3'] * 5)} and 2 more",
        "  waited for alice at 10.0.0.1 (35 ms)",
    ]


def test_why_of_a_group_that_is_gone_and_never_rebalanced(http: str) -> None:
    _, out, _ = invoke("groups", "why", "gone", "--http", http)
    assert out.splitlines() == [
        "group gone: there is no such group",
        "",
        "no finished rebalance is known",
    ]


@pytest.mark.parametrize(
    ("command", "path"),
    [(["list"], "/api/groups"), (["why", "a/b"], "/api/groups/a%2Fb/why")],
)
def test_json_is_the_answer_of_the_server(http: str, command: list[str], path: str) -> None:
    code, out, _ = invoke("groups", *command, "--http", http, "--format", "json")
    assert code == 0
    assert json.loads(out) == ANSWERS[path][1]


def test_yaml_is_the_same_as_json(http: str) -> None:
    code, out, _ = invoke("groups", "why", "a/b", "--http", http, "--format", "yaml")
    assert code == 0
    assert yaml.safe_load(out) == ANSWERS["/api/groups/a%2Fb/why"][1]


def test_a_description_over_http_has_offsets_and_their_readers(http: str) -> None:
    _, out, _ = invoke("groups", "describe", "a/b", "--url", http)
    assert ["STATE", "Empty"] in [line.split() for line in out.splitlines()]
    last = out.splitlines()[-1].split()
    assert last[:3] == ["orders", "1", "40"]
    assert last[-5:] == ["in", "use", "bob-1", "/10.0.0.2", "bob"]
    _, out, _ = invoke("groups", "describe", "a/b", "--url", http, "--members")
    assert out.splitlines()[-1].split() == ["bob-1", "bob", "/10.0.0.2", "bob", "2", "orders(0,1)"]


def test_a_timeline_is_one_line_per_rebalance(http: str) -> None:
    code, out, _ = invoke("groups", "timeline", "a/b", "--url", http)
    current, header, line = out.splitlines()
    assert code == 0
    assert current.startswith("rebalancing since")
    assert header.split()[0] == "STARTED"
    assert "1->2" in line
    assert line.split()[-1] == "completed"


def test_waiting_names_whom_and_since_when(http: str) -> None:
    _, out, _ = invoke("groups", "waiting", "a/b", "--url", http)
    first, _, line = out.splitlines()
    assert first == "group a/b: PreparingRebalance, 1 of 2 members have completed the join phase"
    assert line.split()[0] == "alice-1"
    _, out, _ = invoke("groups", "waiting", "quiet", "--url", http)
    assert out == "group quiet: Stable, it waits for no member\n"


OFFSETS = [
    {"topic": "orders", "partition": 0, "offset": 35},
    {"topic": "orders", "partition": 1, "offset": 35},
]


@pytest.mark.parametrize(
    ("arguments", "change"),
    [
        (
            ["kick", "a/b", "bob/1", "--reason", "stuck"],
            (
                "POST",
                "/api/groups/a%2Fb/members/bob%2F1/kick",
                {"reason": "stuck", "group_instance_id": None},
            ),
        ),
        (
            ["kick", "g", "--instance", "bob"],
            ("POST", "/api/groups/g/members//kick", {"reason": "", "group_instance_id": "bob"}),
        ),
        (["rebalance", "g"], ("POST", "/api/groups/g/rebalance", {"reason": ""})),
        (["delete", "g"], ("DELETE", "/api/groups/g", None)),
        (
            ["reset", "a/b", "--all-topics", "--shift-by", "-5", "--execute"],
            ("POST", "/api/groups/a%2Fb/offsets/reset", {"offsets": OFFSETS}),
        ),
    ],
)
def test_changes_are_asked_for_with_the_token(
    http: str, tmp_path: Path, arguments: list[str], change: tuple[str, str, Any]
) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    for token in (["--token", "s3cret"], ["--token-file", str(file)]):
        assert invoke("groups", *arguments, "--url", http, *token)[0] == 0
    assert [change, change] == CHANGES
    wrong = invoke("groups", *arguments, "--url", http, "--token", "guess")
    assert wrong == (1, "", "error: no token\n")


def test_what_was_changed_is_printed_as_asked(http: str) -> None:
    with_token = ("--url", http, "--token", "s3cret", "--format")
    _, out, _ = invoke("groups", "kick", "a/b", "bob/1", *with_token, "json")
    member = {"member_id": "bob/1", "group_instance_id": None}
    assert json.loads(out) == {"group": "a/b", **member, "error": "NONE"}
    _, out, _ = invoke("groups", "rebalance", "g", *with_token, "yaml")
    assert out == "group: g\nerror: NONE\n"


def test_each_of_several_groups_is_deleted_or_told_why_not(http: str) -> None:
    arguments = ("groups", "delete", "g", "busy", "h", "--url", http, "--token", "s3cret")
    code, out, error = invoke(*arguments)
    told = [line.split() for line in out.splitlines()]
    assert told[1:] == [["g", "OK"], ["busy", "NON_EMPTY_GROUP"], ["h", "OK"]]
    assert (code, error) == (1, "")
    code, out, _ = invoke(*arguments, "--format", "json")
    assert [(each["group"], each["error"]) for each in json.loads(out)] == [
        ("g", "NONE"),
        ("busy", "NON_EMPTY_GROUP"),
        ("h", "NONE"),
    ]


@pytest.mark.parametrize(
    ("api", "client", "instance", "who"),
    [
        ("JoinGroup", "bob", None, "client bob at 10.0.0.2"),
        ("JoinGroup", "bob", "one", "client bob [one] at 10.0.0.2"),
        ("OffsetFetch", "", None, "a client at -"),
        ("kick", "", None, "an operator"),
    ],
)
def test_whoever_has_no_member_id_is_named_by_what_is_known(
    api: str, client: str, instance: str | None, who: str
) -> None:
    member = {
        "member_id": "",
        "group_instance_id": instance,
        "client_id": client,
        "client_host": "/10.0.0.2" if client else "",
    }
    refusal = {"api": api, "error": "E", "at_ms": 0, "first_ms": 0, "count": 1, "detail": "so"}
    group: dict[str, Any] = {"group": "g", "state": None, "findings": [], "rebalances": []}
    _, _, line, *_ = why_lines({**group, "refusals": [{**refusal, "member": member}]})
    assert line.startswith(f"1 {api} request of {who} was answered E at ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["delete", "g"], 2, "this command needs the server's admin.token"),
        (["kick", "g"], 2, "expected either MEMBER or --instance"),
        (["delete", "g", "--token-file", "/nope"], 2, "--token-file /nope: No such file"),
        (["delete", "g", "--token-file", "/dev/zero"], 2, "/dev/zero: more than 65536 characters"),
        (["delete", "g", "--token-file", "/dev/null"], 2, "/dev/null: empty, expected a token"),
        (
            ["reset", "a/b", "--all-topics", "--to-latest"],
            2,
            "use --bootstrap-server",
        ),
        (["reset", "busy", "--all-topics", "--to-offset", "1"], 1, "group 'busy' is Stable"),
    ],
)
def test_a_change_that_cannot_be_is_one_line(
    http: str, arguments: list[str], code: int, message: str
) -> None:
    ended, _, error = invoke("groups", *arguments, "--url", http)
    assert ended == code
    assert message in error
    assert error.count("\n") == 1
    assert CHANGES == []


def test_a_reset_over_http_changes_nothing_unless_told(http: str) -> None:
    code, out, note = invoke(
        "groups", "reset", "a/b", "--topic", "orders:1", "--to-offset", "7", "--url", http
    )
    assert (code, out.splitlines()[1].split()) == (0, ["a/b", "orders", "1", "40", "7"])
    assert "nothing was changed" in note
    assert CHANGES == []


def test_what_goes_wrong_is_one_line_without_a_stack_trace(http: str) -> None:
    assert invoke("groups", "why", "nope", "--http", http) == (
        1,
        "",
        "error: no group 'nope' here\n",
    )
    code, _, err = invoke("groups", "why", "fails", "--http", http)
    assert (code, err.count("\n")) == (1, 1)
    assert "answered 500" in err
    assert invoke("groups", "list", "--http", "localhost") == (
        2,
        "",
        "error: --url: 'localhost' is not a URL, expected http://host:port\n",
    )


def test_a_server_that_is_not_there_is_said_to_be() -> None:
    code, _, err = invoke("groups", "list", "--http", f"http://127.0.0.1:{closed_port()}")
    assert (code, err.count("\n")) == (1, 1)
    assert "is the server running" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--state", "Stabel"), "--state 'Stabel': expected one of Unknown, Preparing"),
        (("kick", "g", "m", "--token", "right\n"), "the token contains unprintable characters"),
        (("reset", "g", "--topic", "a:x", "--to-offset", "1"), "--topic 'a:x': expected NAME or"),
        (("reset", "g", "--topic", f"a:{1 << 31}", "--to-offset", "1"), "expected NAME or NAME:PA"),
        (("reset", "g", "--topic", "a", "--to-offset", f"{1 << 63}"), "expected 0 to 922337203685"),
        (("reset", "g", "--topic", "a", "--shift-by", f"-{1 << 63}"), "expected at most 922337203"),
    ],
)
def test_wrong_arguments_are_told_before_anybody_is_asked(
    arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = invoke("groups", *arguments, "--url", "http://nowhere.invalid")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize("state", ["stable", "Stable"])
def test_groups_are_listed_by_state(http: str, state: str) -> None:
    _, out, _ = invoke("groups", "list", "--http", http, "--state", state)
    assert len(out.splitlines()) == 3
    _, out, _ = invoke("groups", "list", "--http", http, "--state", "empty")
    assert len(out.splitlines()) == 1
