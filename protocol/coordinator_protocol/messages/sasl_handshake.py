"""SaslHandshake (key 17), versions 0-1, never flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, STRING, Api, field


@dataclass(slots=True)
class SaslHandshakeRequest:
    """The body of a request."""

    mechanism: str = field(STRING)


@dataclass(slots=True)
class SaslHandshakeResponse:
    """The body of a response."""

    error_code: int = field(INT16)
    mechanisms: list[str] = field([STRING])


API = Api(
    key=17,
    first=0,
    last=1,
    flexible=None,
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
)
