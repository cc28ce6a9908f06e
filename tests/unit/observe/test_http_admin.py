"""The verbs that change groups: who may, what is asked of the coordinator, what is refused."""

from typing import Any

import aiohttp
import pytest

from coordinator_server.observe.status import AdminResult
from tests.support.fake_http_server import (
    TOKEN,
    fake_http_server,
)
from tests.support.http_client import HttpClient

VERBS = [
    ("POST", "/api/groups/orders/members/bob-1/kick", {"reason": "stuck"}),
    ("POST", "/api/groups/orders/rebalance", {"reason": "deploy"}),
    ("DELETE", "/api/groups/orders", None),
    (
        "POST",
        "/api/groups/orders/offsets/reset",
        {"offsets": [{"topic": "t", "partition": 1, "offset": 7}]},
    ),
]


async def test_verbs_reach_the_coordinator(served: HttpClient) -> None:
    for method, path, body in VERBS:
        assert await served.change(method, path, body) == (200, {"error_code": "NONE"})
    static = {"reason": None, "group_instance_id": "bob"}
    await served.change("POST", "/api/groups/a%2Fb/members//kick", static)
    assert served.side.admin.asked == [
        ("kick", "orders", "bob-1", None, "stuck"),
        ("rebalance", "orders", "deploy"),
        ("delete", "orders"),
        ("reset", "orders", [("t", 1, 7)]),
        ("kick", "a/b", "", "bob", ""),
    ]


@pytest.mark.parametrize(("method", "path", "body"), VERBS)
@pytest.mark.parametrize(
    "token", ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cretx", "Basic s3cret", "s3cret"]
)
async def test_a_verb_without_the_token_is_refused(
    served: HttpClient, method: str, path: str, body: Any, token: str
) -> None:
    code, answer = await served.change(method, path, body, token)
    assert code == 401
    assert "Authorization: Bearer TOKEN" in answer["error"]
    assert served.side.admin.asked == []


@pytest.mark.parametrize(("method", "path", "body"), VERBS)
async def test_verbs_are_off_where_there_is_no_token(method: str, path: str, body: Any) -> None:
    async with aiohttp.ClientSession() as session, fake_http_server(token=None) as side:
        code, answer = await HttpClient(side, session).change(method, path, body, "Bearer ")
        assert code == 403
        assert "admin.token" in answer["error"]
        assert side.admin.asked == []


@pytest.mark.parametrize(
    ("error", "code"),
    [("NON_EMPTY_GROUP", 409), ("GROUP_ID_NOT_FOUND", 404), ("UNKNOWN_MEMBER_ID", 404)],
)
async def test_a_refusal_of_the_coordinator_has_its_name(
    served: HttpClient, error: str, code: int
) -> None:
    served.side.admin.result = AdminResult(error, "it has 2 members")
    answered = await served.change("DELETE", "/api/groups/orders")
    assert answered == (code, {"error": f"{error}: it has 2 members", "error_code": error})


RESET = "/api/groups/orders/offsets/reset"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (RESET, {}, "offsets: null, expected a list of 1 to 10000"),
        (RESET, {"offsets": []}, "offsets: [], expected a list of 1 to 10000"),
        (RESET, {"offsets": [7]}, "offsets[0]: 7, expected an object"),
        (RESET, {"offsets": [{"topic": 7}]}, "offsets[0].topic: 7, expected a text"),
        (
            RESET,
            {"offsets": [{"topic": "\ud800", "partition": 0, "offset": 1}]},
            'offsets[0].topic: "\\ud800", expected a text of whole characters',
        ),
        (
            RESET,
            {"offsets": [{"topic": "t", "partition": True, "offset": 1}]},
            "offsets[0].partition: true, expected a whole number from 0 to 2147483647",
        ),
        (
            RESET,
            {"offsets": [{"topic": "t", "partition": 0, "offset": -1}]},
            "offsets[0].offset: -1, expected a whole number from 0 to 9223372036854775807",
        ),
        (RESET, [1], "the body is [1], expected an object"),
        (
            "/api/groups/orders/rebalance",
            {"reason": "x" * 256},
            f'reason: "{"x" * 56}..., expected a text of at most 255 characters',
        ),
        (
            "/api/groups/orders/members//kick",
            {"reason": "x"},
            "expected either a member id in the path or a group_instance_id",
        ),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(
    served: HttpClient, path: str, body: Any, message: str
) -> None:
    assert await served.change("POST", path, body) == (400, {"error": message})
    assert served.side.admin.asked == []


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_json_is_refused(served: HttpClient, raw: bytes) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    code, answer = await served.ask(
        "POST", "/api/groups/orders/rebalance", data=raw, headers=headers
    )
    assert (code, answer) == (400, {"error": "the body is no JSON, expected an object"})


async def test_a_body_that_is_not_encoded_as_it_says_is_refused(served: HttpClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": "gzip"}
    code, answer = await served.ask(
        "POST", "/api/groups/orders/rebalance", data=b"abc", headers=headers
    )
    assert (code, answer) == (400, {"error": "the body is not encoded as its headers say"})
