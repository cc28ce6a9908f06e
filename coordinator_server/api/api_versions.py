"""ApiVersions (key 18): what this server serves.

v1: throttle time. v3: flexible, the client's software name and version (KIP-511), features.
v4: features with a minimum version of 0 are no longer hidden; none are announced here.

The response header never has tagged fields, and a version that is too new is answered
UNSUPPORTED_VERSION in version 0, so that any client can read it.
"""

import re
from functools import cache, lru_cache

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from coordinator_server.api.call import Call
from coordinator_server.api.registry import announced
from coordinator_server.api.services import Services

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The form of a client's software name and version."""


def handle(
    call: Call, request: ApiVersionsRequest, _services: Services
) -> ApiVersionsResponse | None:
    """Answer with the ranges of versions, the same bytes every time."""
    if call.version >= 3 and not (
        _is_software(request.client_software_name) and _is_software(request.client_software_version)
    ):
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    call.answer_body(_body(call.version))
    return None


def refuse(_request: ApiVersionsRequest, error: ErrorCode, _version: int) -> ApiVersionsResponse:
    """An error; UNSUPPORTED_VERSION tells which versions of ApiVersions there are."""
    own = [api for api in _ranges() if api.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=error, api_keys=own if error == ErrorCode.UNSUPPORTED_VERSION else []
    )


@lru_cache(maxsize=256)
def _is_software(text: str) -> bool:
    """Whether this may be a name or version; there are few of them among a server's clients."""
    return SOFTWARE.fullmatch(text) is not None


def _ranges() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in announced()
    ]


@cache
def _body(version: int) -> bytes:
    return response_encoder(ApiKey.API_VERSIONS, version)(ApiVersionsResponse(api_keys=_ranges()))
