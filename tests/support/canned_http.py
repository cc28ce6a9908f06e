"""An HTTP server with canned responses, for tests of commands."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
CAROL = {**ALICE, "member_id": "carol-1", "client_id": "carol", "client_host": "/10.0.0.3"}
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
    "evicted": [CAROL] * 7,
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
            ],
            "findings": [{"sentence": "client 'bob' made group 'a/b' rebalance 7 times"}],
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


class CannedResponses(BaseHTTPRequestHandler):
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


@contextmanager
def http_side() -> Iterator[str]:
    """The URL of a server with `ANSWERS`."""
    CHANGES.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), CannedResponses) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
