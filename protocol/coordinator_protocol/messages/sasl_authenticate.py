"""SaslAuthenticate (key 36), versions 0-2, flexible from 2."""

from dataclasses import dataclass

from coordinator_protocol.schema import BYTES, INT16, INT64, STRING, Api, field


@dataclass(slots=True)
class SaslAuthenticateRequest:
    """The body of a request."""

    auth_bytes: bytes = field(BYTES)


@dataclass(slots=True)
class SaslAuthenticateResponse:
    """The body of a response."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1)


API = Api(
    key=36,
    first=0,
    last=2,
    flexible=2,
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
)
