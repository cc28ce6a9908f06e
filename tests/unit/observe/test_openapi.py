"""What the description of the API says is what the API does: routes, answers, events, fields."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from openapi_spec_validator import validate

import coordinator_server
from coordinator_server.group.rebalance_events import (
    GroupRemoved,
    MemberRemoved,
    OffsetsRemoved,
    OffsetsRemovedReason,
    RebalanceReason,
    RemovalReason,
)
from coordinator_server.observe.sse import event_of
from coordinator_server.observe.status import AdminResult
from tests.support.fake_http_server import (
    ALICE,
    REFUSED,
    STARTED,
    TOKEN,
    FakeHttpServer,
    fake_http_server,
    rebalance_history,
)

FILE = Path(coordinator_server.__file__).parent / "observe/openapi.json"
API: dict[str, Any] = json.loads(FILE.read_text())
METHODS = ("get", "post", "delete")


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": API["components"]})


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in API["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


@pytest.fixture
async def side() -> AsyncIterator[FakeHttpServer]:
    async with fake_http_server() as side:
        yield side


def test_the_description_is_openapi() -> None:
    validate(API)


def test_every_route_is_described_and_every_described_route_is_there() -> None:
    routes = FakeHttpServer().server.application().router.routes()
    served = {
        (route.resource.canonical, route.method.lower())
        for route in routes
        if route.resource is not None and route.method != "HEAD"
    }
    assert served == {(path, method) for path, method, _ in operations()}


ASKED = [
    ("/healthz", "/healthz", 200),
    ("/readyz", "/readyz", 200),
    ("/api/groups", "/api/groups", 200),
    ("/api/groups", "/api/groups?limit=x", 400),
    ("/api/groups/{group_id}", "/api/groups/orders", 200),
    ("/api/groups/{group_id}", "/api/groups/nope", 404),
    ("/api/groups/{group_id}/timeline", "/api/groups/orders/timeline", 200),
    ("/api/groups/{group_id}/timeline", "/api/groups/orders/timeline?limit=0", 400),
    ("/api/groups/{group_id}/timeline", "/api/groups/nope/timeline", 404),
    ("/api/groups/{group_id}/why", "/api/groups/orders/why", 200),
    ("/api/groups/{group_id}/why", "/api/groups/nope/why", 404),
    ("/api/groups/{group_id}/waiting", "/api/groups/orders/waiting", 200),
    ("/api/groups/{group_id}/waiting", "/api/groups/nope/waiting", 404),
    ("/api/status", "/api/status", 200),
    ("/api/openapi.json", "/api/openapi.json", 200),
    ("/web/{name}", "/web/nope.js", 404),
]


@pytest.mark.parametrize(("path", "url", "code"), ASKED)
async def test_answers_have_the_described_fields_and_no_others(
    side: FakeHttpServer, path: str, url: str, code: int
) -> None:
    side.add_rebalance_history()
    async with aiohttp.ClientSession() as session, session.get(side.url + url) as answer:
        assert answer.status == code
        check(path, "get", answer.status, await answer.json())


def check(path: str, method: str, code: int, form: Any) -> None:
    content = API["paths"][path][method]["responses"][str(code)]["content"]
    validator(content["application/json"]["schema"]).validate(form)


async def test_a_gone_groups_answer_and_a_loading_servers_are_described(
    side: FakeHttpServer,
) -> None:
    side.add_rebalance_history()
    side.status.summaries.clear()
    side.status.states, side.status.loads = {"loading": 1}, {7: (1, 2)}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{side.url}/api/groups/orders/why") as answer:
            check("/api/groups/{group_id}/why", "get", 200, await answer.json())
        async with session.get(f"{side.url}/readyz") as answer:
            check("/readyz", "get", answer.status, await answer.json())
            assert answer.status == 503


def test_objects_of_answers_have_no_fields_beside_those_described() -> None:
    """Or the tests above could not find undescribed ones."""
    bodies = {"ReasonBody", "KickBody", "ResetBody"}
    schemas = API["components"]["schemas"]
    open_ones = {
        name
        for name, schema in schemas.items()
        if schema["type"] == "object" and schema.get("additionalProperties") is not False
    }
    assert open_ones == bodies


def test_every_schema_is_used() -> None:
    text = json.dumps(API)
    events = {"OffsetsRemoved", "MemberRemoved", "GroupRemoved"}
    unused = [
        name
        for name in API["components"]["schemas"]
        if f'"#/components/schemas/{name}"' not in text
    ]
    assert set(unused) == events


ADMIN = [(path, method) for path, method, op in operations() if "security" in op]
BODIES: dict[str, Any] = {
    "kick": {"reason": "x"},
    "forceRebalance": {"reason": None},
    "resetOffsets": {"offsets": [{"topic": "t", "partition": 0, "offset": 1}]},
}


@pytest.mark.parametrize(("path", "method"), ADMIN)
@pytest.mark.parametrize(
    ("token", "error", "body_is_right", "code"),
    [
        (TOKEN, "NONE", True, 200),
        (TOKEN, "GROUP_ID_NOT_FOUND", True, 404),
        (TOKEN, "NON_EMPTY_GROUP", True, 409),
        (TOKEN, "NONE", False, 400),
        ("wrong", "NONE", True, 401),
        (None, "NONE", True, 403),
    ],
)
async def test_verbs_take_and_answer_what_is_described(
    path: str, method: str, token: str | None, error: str, body_is_right: bool, code: int
) -> None:
    operation = API["paths"][path][method]
    body = BODIES.get(operation["operationId"])
    if body is None and not body_is_right:
        return  # it takes none
    if body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        validator(schema).validate(body)
    url = path.replace("{group_id}", "orders").replace("{member_id}", "bob-1")
    async with fake_http_server(None if token is None else TOKEN) as side:
        side.admin.result = AdminResult(error)
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, side.url + url, json=body if body_is_right else 7) as answer,
        ):
            assert answer.status == code
            check(path, method, code, await answer.json())


EVENTS = [
    (STARTED, "Started"),
    (rebalance_history()[2], "Rebalance"),
    (MemberRemoved("g", RemovalReason.LEFT, ALICE), "MemberRemoved"),
    (OffsetsRemoved("g", OffsetsRemovedReason.EXPIRED, 3), "OffsetsRemoved"),
    (REFUSED, "Refusal"),
    (GroupRemoved("g", ()), "GroupRemoved"),
]


@pytest.mark.parametrize(("observation", "schema"), EVENTS)
def test_events_are_as_described(observation: Any, schema: str) -> None:
    name, form = event_of(observation)
    validator({"$ref": f"#/components/schemas/{schema}"}).validate(form)
    description = API["paths"]["/api/events"]["get"]["responses"]["200"]["description"]
    assert f"`{name}` ({schema}" in description


def test_the_reasons_are_all_described() -> None:
    assert API["components"]["schemas"]["Reason"]["enum"] == [
        reason.value for reason in RebalanceReason
    ]


async def test_the_description_is_served(side: FakeHttpServer) -> None:
    url = f"{side.url}/api/openapi.json"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert await answer.json() == API
