"""Sends requests to the HTTP API; a failure ends the command with one line."""

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from coordinator_server.cli.arguments import fail
from coordinator_server.cli.groups.options import DEFAULT_URL, URL_VARIABLE
from coordinator_server.config.token_file import token_in

if TYPE_CHECKING:
    from urllib.error import HTTPError

TIMEOUT_SECONDS = 10


def group_path(group: str) -> str:
    """The path of a group, which may have any name."""
    return f"/api/groups/{quote(group, safe='')}"


def read_token(token: str | None, file: Path | None) -> str | None:
    """The token of --token-file or, without it, of --token."""
    if file is None:
        return token
    try:
        return token_in(file)
    except ValueError as error:
        fail(f"--token-file {file}: {error}", code=2)


class ApiError(Exception):
    """The server answered with an error; the text is for people."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.is_about_the_token = status in (401, 403)


def get(url: str | None, path: str) -> Any:
    """Send a GET request and return the decoded response."""
    try:
        return _request(url, "GET", path, None, None)
    except ApiError as problem:
        fail(str(problem))


def change(url: str | None, method: str, path: str, body: Any, token: str | None) -> Any:
    """Send a request that needs the token; end the command if the server refuses it."""
    try:
        return try_change(url, method, path, body, token)
    except ApiError as problem:
        fail(str(problem))


def try_change(url: str | None, method: str, path: str, body: Any, token: str | None) -> Any:
    """Send a request that needs the token. Raises ApiError if the server refuses it."""
    if not token:
        fail("this command needs the server's admin.token: use --token or --token-file", code=2)
    if not token.isprintable():
        # The message must not contain it: it may be the right token with a line end.
        fail("the token contains unprintable characters, expected one line of text", code=2)
    return _request(url, method, path, body, token)


def _request(url: str | None, method: str, path: str, body: Any, token: str | None) -> Any:
    base = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    if not base.startswith(("http://", "https://")):
        fail(f"--url: {base!r} is not a URL, expected http://host:port", code=2)
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    data = None if body is None else json.dumps(body).encode()
    try:
        request = Request(base.rstrip("/") + path, data=data, method=method)  # noqa: S310
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        raise ApiError(_error_of(error), error.code) from error
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        fail(f"{base} did not answer: {reason}; is the server running with http.listener there?")


def _error_of(error: "HTTPError") -> str:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.load(error)["error"])
    return f"{error.url} answered {error.code} {error.reason}"
