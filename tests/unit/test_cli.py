"""The command line, against servers that answer what a test tells them to."""

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from coordinator_server import __version__
from coordinator_server.cli import app
from coordinator_server.explain import when, why_lines

BOB = {
    "member_id": "bob-1",
    "group_instance_id": "bob",
    "client_id": "bob",
    "client_host": "/10.0.0.2",
}
ALICE = {
    "member_id": "alice-1",
    "group_instance_id": None,
    "client_id": "alice",
    "client_host": "/10.0.0.1",
}
EVENT = {
    "group": "a/b",
    "reason": "member_joined",
    "client_reason": "rolling upgrade",
    "culprit": BOB,
    "state_before": "Stable",
    "outcome": "completed",
    "generation_before": 1,
    "generation_after": 2,
    "started_ms": 1_700_000_000_000,
    "join_phase_ms": 40,
    "sync_phase_ms": 20,
    "members_before": 1,
    "members_after": 2,
    "joined": [BOB],
    "left": [],
    "evicted": [ALICE] * 7,
    "waited_for": [{**ALICE, "waited_ms": 35}],
    "rounds": [
        {"reason": "member_joined", "culprit": BOB, "client_reason": "rolling upgrade"},
        {"reason": "session_expired", "culprit": ALICE, "client_reason": None},
    ],
}
GROUP = {
    "group": "a/b",
    "state": "Stable",
    "protocol_type": "consumer",
    "protocol": "range",
    "generation": 2,
}
REFUSAL = {
    "at_ms": 1_700_000_000_000,
    "first_ms": 1_700_000_000_000,
    "api": "Heartbeat",
    "error": "ILLEGAL_GENERATION",
    "detail": "it sent generation 7, the group is at 8",
    "member": BOB,
    "count": 1,
}
DESCRIBED = {
    **GROUP,
    "state": "Empty",
    "members": [{**BOB, "assigned": {"orders": [0, 1]}}],
    "offsets": [
        {"topic": "orders", "partition": p, "offset": 40, "commit_ms": 0, "expire_ms": None}
        for p in (0, 1)
    ],
}
ANSWERS: dict[str, tuple[int, Any]] = {
    "/api/groups": (
        200,
        {
            "groups": [
                {**GROUP, "members": 2, "last_rebalance": EVENT},
                {**GROUP, "group": "quiet", "members": 0, "last_rebalance": None},
            ]
        },
    ),
    "/api/groups/a%2Fb/why": (
        200,
        {
            **GROUP,
            "members": [ALICE, BOB],
            "waiting_for": [ALICE],
            "current": {**EVENT, "client_reason": None},
            "rebalances": [EVENT],
            "refusals": [REFUSAL, {**REFUSAL, "count": 3}],
            "findings": [{"sentence": "client 'bob' made group 'a/b' rebalance 7 times"}],
        },
    ),
    "/api/groups/a%2Fb": (200, DESCRIBED),
    "/api/groups/busy": (200, {**DESCRIBED, "group": "busy", "state": "Stable"}),
    "/api/groups/a%2Fb/timeline?limit=20": (
        200,
        {"group": "a/b", "current": {**EVENT, "client_reason": None}, "rebalances": [EVENT]},
    ),
    "/api/groups/a%2Fb/waiting": (
        200,
        {
            "group": "a/b",
            "state": "PreparingRebalance",
            "phase": "join",
            "joined": 1,
            "expected": 2,
            "waiting": [
                {**ALICE, "kind": "dynamic", "for": "join", "since_ms": 0, "deadline_ms": 0}
            ],
        },
    ),
    "/api/groups/quiet/waiting": (
        200,
        {"group": "quiet", "state": "Stable", "phase": None, "waiting": []},
    ),
    "/api/groups/gone/why": (
        200,
        {
            "group": "gone",
            "state": None,
            "current": None,
            "rebalances": [],
            "refusals": [],
            "findings": [],
        },
    ),
    "/api/groups/nope/why": (404, {"error": "no group 'nope' here"}),
}


CHANGES: list[tuple[str, str, Any]] = []
"""What the server was told to change."""


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, form = ANSWERS.get(self.path, (500, None))
        self._answer(status, form)

    def _change(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        CHANGES.append((self.command, self.path, json.loads(body or b"null")))
        is_right = self.headers["Authorization"] == "Bearer s3cret"
        if not is_right:
            self._answer(401, {"error": "no token"})
        elif self.path.endswith("/busy"):
            self._answer(409, {"error": "NON_EMPTY_GROUP"})
        else:
            self._answer(200, {"error_code": "NONE"})

    def do_POST(self) -> None:
        self._change()

    def do_DELETE(self) -> None:
        self._change()

    def _answer(self, status: int, form: Any) -> None:
        body = json.dumps(form).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def http() -> Iterator[str]:
    """The URL of a server with `ANSWERS`."""
    CHANGES.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_groups_are_listed_one_per_line(http: str) -> None:
    code, out, _ = invoke("groups", "list", "--http", http)
    header, first, second = out.splitlines()
    assert code == 0
    assert header.split()[:3] == ["GROUP", "STATE", "PROTOCOL"]
    assert first.split()[:5] == ["a/b", "Stable", "range", "2", "2"]
    assert first.rstrip().endswith("member_joined")
    assert second.rstrip().endswith("-")


def test_why_names_reason_culprit_and_cost(http: str) -> None:
    code, out, _ = invoke("groups", "why", "a/b", "--http", http)
    assert code == 0
    at = when(1_700_000_000_000)
    refused = (
        f"bob-1 [bob] at /10.0.0.2 got ILLEGAL_GENERATION to Heartbeat at {at} "
        "because it sent generation 7, the group is at 8"
    )
    assert out.splitlines() == [
        "group a/b: Stable, generation 2, 2 members, protocol range",
        (
            f"rebalancing since {at}: member_joined by bob-1 [bob] at /10.0.0.2; "
            "waits for alice-1 at /10.0.0.1"
        ),
        "client 'bob' made group 'a/b' rebalance 7 times",
        "",
        f"{at}  generation 1 -> 2  completed in 60 ms (join 40, sync 20)  members 1 -> 2",
        '  because member_joined by bob-1 [bob] at /10.0.0.2 ("rolling upgrade")',
        "  then    session_expired by alice-1 at /10.0.0.1",
        "  joined bob-1 [bob] at /10.0.0.2",
        f"  evicted {', '.join(['alice-1 at /10.0.0.1'] * 5)} and 2 more",
        "  waited for alice-1 at /10.0.0.1 (35 ms)",
        "",
        refused,
        f"{refused}, 3 times since {at}",
    ]


def test_why_of_a_group_that_is_gone_and_never_rebalanced(http: str) -> None:
    _, out, _ = invoke("groups", "why", "gone", "--http", http)
    assert out.splitlines() == [
        "group gone: there is no such group",
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
    assert first == "group a/b: PreparingRebalance, 1 of 2 members have done their join"
    assert line.split()[0] == "alice-1"
    _, out, _ = invoke("groups", "waiting", "quiet", "--url", http)
    assert out == "group quiet: Stable, it waits for nobody\n"


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
        ("JoinGroup", "bob", None, "client bob at /10.0.0.2"),
        ("JoinGroup", "bob", "one", "client bob [one] at /10.0.0.2"),
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
    (*_, line) = why_lines({**group, "refusals": [{**refusal, "member": member}]})
    assert line.startswith(f"{who} got E to {api} at ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["delete", "g"], 2, "this needs the server's admin.token"),
        (["kick", "g"], 2, "expected either MEMBER or --instance"),
        (["delete", "g", "--token-file", "/nope"], 2, "--token-file /nope: No such file"),
        (["reset", "a/b", "--all-topics", "--to-latest"], 1, "they need --bootstrap-server"),
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
    assert "answers 500" in err
    assert invoke("groups", "list", "--http", "localhost") == (
        2,
        "",
        "error: --url: 'localhost' is no URL, expected http://host:port\n",
    )


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_server_that_is_not_there_is_said_to_be() -> None:
    code, _, err = invoke("groups", "list", "--http", f"http://127.0.0.1:{closed_port()}")
    assert (code, err.count("\n")) == (1, 1)
    assert "is the server running" in err


Serve = Callable[[bytes | None], int]


@pytest.fixture
def kafka() -> Iterator[Serve]:
    """Starts a server that gives one answer to one request, None for just closing."""
    threads: list[threading.Thread] = []

    def serve(answer: bytes | None) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def answer_one() -> None:
            with listener, listener.accept()[0] as connection:
                connection.recv(1 << 16)
                if answer is not None:
                    connection.sendall(answer)

        threads.append(threading.Thread(target=answer_one))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield serve
    for thread in threads:
        thread.join()


def answer(error: int = 0, correlation_id: int = 1) -> bytes:
    body = struct.pack(">ihih", correlation_id, error, 1, 4) + b"host" + struct.pack(">i", 9092)
    return struct.pack(">i", len(body)) + body


def test_a_server_that_names_a_coordinator_is_healthy(kafka: Serve) -> None:
    port = kafka(answer())
    assert invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}") == (
        0,
        "coordinator at host:9092\n",
        "",
    )


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer(error=15), "error 15"),
        (answer(correlation_id=2), "answers no FindCoordinator response"),
        (answer()[:9], "closed"),
        (struct.pack(">i", 3) + b"abc", "answers no FindCoordinator response"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "that is no Kafka listener"),
        (None, "closed"),
    ],
)
def test_any_other_answer_is_unhealthy(kafka: Serve, reply: bytes | None, message: str) -> None:
    code, out, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{kafka(reply)}")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_server_that_never_answers_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, _, err = invoke(
            "healthcheck", "--bootstrap", f"127.0.0.1:{port}", "--timeout", "0.05"
        )
    assert (code, err) == (1, f"error: 127.0.0.1:{port} does not answer within 0.05 s\n")


def test_nobody_listening_is_unhealthy() -> None:
    port = closed_port()
    code, _, err = invoke("healthcheck", "--bootstrap", f"127.0.0.1:{port}")
    assert (code, err) == (1, f"error: 127.0.0.1:{port}: Connection refused\n")


def test_an_address_that_is_none_is_a_wrong_argument() -> None:
    code, _, err = invoke("healthcheck", "--bootstrap", "here")
    assert (code, err) == (2, "error: --bootstrap: 'here' is not an address, expected host:port\n")


def test_the_version_is_the_packages() -> None:
    assert invoke("--version") == (0, f"{__version__}\n", "")


def imported_by(*arguments: str) -> set[str]:
    """The top-level packages that a command imports."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "coordinator_server", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


LATE = {"aiohttp", "aiokafka", "kio", "hypothesis", "prometheus_client", "pydantic_settings"}


def test_reading_the_settings_imports_nothing_that_is_not_needed_for_it() -> None:
    imported = imported_by("run", "--set", "node.id=x")
    assert {"pydantic", "typer"} <= imported
    assert not imported & {*LATE, "asyncio", "rich", "structlog"}


def test_the_log_does_not_bring_rich_along() -> None:
    code = (
        "import sys; from coordinator_server.observe import log; assert 'structlog' in sys.modules;"
        "assert not [name for name in sys.modules if name.startswith('rich')];"
        "import rich; rich.print('rich is there')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.stdout, ended.stderr) == ("rich is there\n", "")
