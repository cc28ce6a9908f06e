"""Verbs that change groups: off unless there is a token, which every request has to present."""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from coordinator_server.observe.http_answers import BadRequest, error, read_body
from coordinator_server.observe.status import AdminResult, GroupAdmin

MAX_TEXT_CHARS = 255
MAX_OFFSETS = 10_000

_OFF = "admin verbs are off: set admin.token or admin.token.file to switch them on"
_WRONG = "expected the header `Authorization: Bearer TOKEN` with the token of admin.token"
_NOT_FOUND = ("GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID")


Verb = Callable[[GroupAdmin, web.Request], Awaitable[AdminResult]]


class AdminRoutes:
    """Routes that change groups."""

    def __init__(self, admin: GroupAdmin | None, token: str | None) -> None:
        """Serve them with a token; without one, or an `admin`, every verb is refused."""
        self._admin = admin
        self._token = token.encode() if token else None

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        group = "/api/groups/{group_id:[^/]*}"
        return [
            web.post(f"{group}/members/{{member_id:[^/]*}}/kick", self._guarded(_kick)),
            web.post(f"{group}/rebalance", self._guarded(_rebalance)),
            web.delete(group, self._guarded(_delete)),
            web.post(f"{group}/offsets/reset", self._guarded(_reset)),
        ]

    def _guarded(self, verb: Verb) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if self._token is None or self._admin is None:
                return error(403, _OFF)
            if not _has_token(request, self._token):
                refused = error(401, _WRONG)
                refused.headers["WWW-Authenticate"] = "Bearer"
                return refused
            return _answer(await verb(self._admin, request))

        return handle


def _has_token(request: web.Request, token: bytes) -> bool:
    """Whether a request presents the token; how long that takes does not tell how much fits."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    presented = given.strip().encode("utf-8", "surrogateescape")
    return kind.lower() == "bearer" and hmac.compare_digest(presented, token)


async def _kick(admin: GroupAdmin, request: web.Request) -> AdminResult:
    member_id, form = request.match_info["member_id"], await _body(request)
    reason, instance = _text(form, "reason"), _text(form, "group_instance_id")
    if bool(member_id) == bool(instance):
        raise BadRequest("expected either a member id in the path or a group_instance_id")
    return await admin.kick(_group(request), member_id, instance or None, reason or "")


async def _rebalance(admin: GroupAdmin, request: web.Request) -> AdminResult:
    reason = _text(await _body(request), "reason")
    return await admin.force_rebalance(_group(request), reason or "")


async def _delete(admin: GroupAdmin, request: web.Request) -> AdminResult:
    return await admin.delete_group(_group(request))


async def _reset(admin: GroupAdmin, request: web.Request) -> AdminResult:
    return await admin.reset_offsets(_group(request), _offsets(await _body(request)))


def _group(request: web.Request) -> str:
    return request.match_info["group_id"]


def _answer(result: AdminResult) -> web.Response:
    """The HTTP status of a result: 200 for NONE, 404 for a missing group, 409 for a refusal."""
    if result.error == "NONE":
        return web.json_response({"error_code": "NONE"})
    status = 404 if result.error in _NOT_FOUND else 409
    return error(status, f"{result.error}: {result.detail}", error_code=result.error)


async def _body(request: web.Request) -> Mapping[str, Any]:
    try:
        raw = await read_body(request)
    except web.RequestPayloadError:
        raise BadRequest("the body is not encoded as its headers say") from None
    try:
        form = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        raise BadRequest("the body is no JSON, expected an object") from None
    if not isinstance(form, dict):
        raise BadRequest(f"the body is {_kind(form)}, expected an object")
    return form


def _text(form: Mapping[str, Any], name: str) -> str | None:
    """An optional text of the body; null is as if it were not there."""
    value = form.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
        raise BadRequest(
            f"{name}: {_kind(value)}, expected a text of at most {MAX_TEXT_CHARS} characters"
        )
    return _sound(name, value)


def _sound(where: str, text: str) -> str:
    """A text that can be written down: JSON lets half of a surrogate pair through."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{where}: {_kind(text)}, expected a text of whole characters") from None
    return text


def _offsets(form: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    offsets = form.get("offsets")
    if not isinstance(offsets, list) or not 1 <= len(offsets) <= MAX_OFFSETS:
        raise BadRequest(f"offsets: {_kind(offsets)}, expected a list of 1 to {MAX_OFFSETS}")
    return [_offset(index, entry) for index, entry in enumerate(offsets)]


def _offset(index: int, entry: Any) -> tuple[str, int, int]:
    where = f"offsets[{index}]"
    if not isinstance(entry, dict):
        raise BadRequest(f"{where}: {_kind(entry)}, expected an object")
    topic = entry.get("topic")
    if not isinstance(topic, str):
        raise BadRequest(f"{where}.topic: {_kind(topic)}, expected a text")
    topic = _sound(f"{where}.topic", topic)
    partition = _number(f"{where}.partition", entry.get("partition"), (1 << 31) - 1)
    return topic, partition, _number(f"{where}.offset", entry.get("offset"), (1 << 63) - 1)


def _number(where: str, value: Any, most: int) -> int:
    # A bool is an int to Python, not to who reads the error.
    if type(value) is not int or not 0 <= value <= most:
        raise BadRequest(f"{where}: {_kind(value)}, expected a whole number from 0 to {most}")
    return value


def _kind(value: Any) -> str:
    """A value in an error: short, whatever it is."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
