"""The command line, against servers that answer what a test tells them to."""

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator_server import __version__
from coordinator_server.cli import app
from coordinator_server.explain import when

BOB = {
    "member_id": "bob-1",
    "group_instance_id": "bob",
    "client_id": "bob",
    "client_host": "/10.0.0.2",
}
ALICE = {**BOB, "member_id": "alice-1", "group_instance_id": None, "client_host": "/10.0.0.1"}
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
    "waited_for": [ALICE],
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
        },
    ),
    "/api/groups/gone/why": (
        200,
        {"group": "gone", "state": None, "current": None, "rebalances": []},
    ),
    "/api/groups/nope/why": (404, {"error": "no group 'nope' here"}),
}


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, form = ANSWERS.get(self.path, (500, None))
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
    assert out.splitlines() == [
        "group a/b: Stable, generation 2, 2 members, protocol range",
        (
            f"rebalancing since {at}: member_joined by bob-1 [bob] at /10.0.0.2; "
            "waits for alice-1 at /10.0.0.1"
        ),
        "",
        f"{at}  generation 1 -> 2  completed in 60 ms (join 40, sync 20)  members 1 -> 2",
        '  because member_joined by bob-1 [bob] at /10.0.0.2 ("rolling upgrade")',
        "  then    session_expired by alice-1 at /10.0.0.1",
        "  joined bob-1 [bob] at /10.0.0.2",
        f"  evicted {', '.join(['alice-1 at /10.0.0.1'] * 5)} and 2 more",
        "  last to come: alice-1 at /10.0.0.1",
    ]


def test_why_of_a_group_that_is_gone_and_never_rebalanced(http: str) -> None:
    _, out, _ = invoke("groups", "why", "gone", "--http", http)
    assert out.splitlines() == [
        "group gone: gone",
        "no finished rebalance since the server started",
    ]


@pytest.mark.parametrize(
    ("command", "path"),
    [(["list"], "/api/groups"), (["why", "a/b"], "/api/groups/a%2Fb/why")],
)
def test_json_is_the_answer_of_the_server(http: str, command: list[str], path: str) -> None:
    code, out, _ = invoke("groups", *command, "--http", http, "--format", "json")
    assert code == 0
    assert json.loads(out) == ANSWERS[path][1]


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
