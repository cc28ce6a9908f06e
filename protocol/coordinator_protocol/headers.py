"""Request and response headers.

A request header is v2 where the API's version is flexible, else v1; v2 is v1 and tagged fields. The
client id keeps its two-byte length in both. A response header is the correlation id, followed by
tagged fields where the version is flexible - except for ApiVersions, whose answer a client must be
able to read before it knows which versions the server has (KIP-511).
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from coordinator_protocol.api_keys import FIRST_FLEXIBLE, NEVER, ApiKey
from coordinator_protocol.decoding import skip_tagged_fields
from coordinator_protocol.errors import Malformed

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_NO_TAGGED_FIELDS: Final = b"\0"
MOST_TAGGED_BYTES: Final = 4_096
"""Of a request's header, in which no version has any yet: they are read on the event loop."""
_unpack_start: Final = Struct(">hhih").unpack_from
_pack_start: Final = Struct(">hhih").pack
_unpack_intent: Final = Struct(">hhi").unpack_from
_correlation_id: Final = Struct(">i")


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether a version of an API has tagged fields; an API we do not know has none."""
    return api_version >= FIRST_FLEXIBLE.get(api_key, NEVER)


def request_header_version(api_key: int, api_version: int) -> int:
    """The version of a request's header: 1 or 2."""
    return 2 if is_flexible(api_key, api_version) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """The version of a response's header: 0 or 1."""
    return 1 if api_key != _API_VERSIONS and is_flexible(api_key, api_version) else 0


def read_intent(buffer: bytes, start: int, end: int) -> tuple[int, int, int]:
    """API key, version and correlation id, which every request begins with, known or not.

    Raises:
        Malformed: the frame has less than 8 bytes.
    """
    if end - start < 8:
        raise _too_short(start, end)
    intent: tuple[int, int, int] = _unpack_intent(buffer, start)
    return intent


def read_client_id(buffer: bytes, start: int, end: int) -> tuple[str, int]:
    """The client id in the header of the request in buffer[start:end], and where its body begins.

    A null client id is an empty one, as in Kafka. The header of an API we do not know is taken for
    v1.

    Raises:
        Malformed: the frame ends within the header, or it makes no sense.
    """
    try:
        api_key, api_version, _, length = _unpack_start(buffer, start)
        body = start + 10
        client_id = ""
        if length > 0:
            client_id = buffer[body : body + length].decode("utf-8", "kafka")
            body += length
        if api_version >= FIRST_FLEXIBLE.get(api_key, NEVER):
            if buffer[body]:
                body = skip_tagged_fields(buffer, body, min(end, body + MOST_TAGGED_BYTES))
            else:
                body += 1
    except (IndexError, StructError):
        raise _too_short(start, end) from None
    if body > end:
        raise _too_short(start, end)
    return client_id, body


def _too_short(start: int, end: int) -> Malformed:
    return Malformed(f"a frame of {end - start} bytes ends within its request header")


def request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The bytes of a request's header."""
    text = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(text)
    tagged = _NO_TAGGED_FIELDS if is_flexible(api_key, api_version) else b""
    return _pack_start(api_key, api_version, correlation_id, length) + text + tagged


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The bytes of a response's header."""
    header: bytes = _correlation_id.pack(correlation_id)
    if api_version < FIRST_FLEXIBLE.get(api_key, NEVER) or api_key == _API_VERSIONS:
        return header
    return header + _NO_TAGGED_FIELDS


def read_response_header(
    buffer: bytes, start: int, end: int, *, api_key: int, api_version: int
) -> tuple[int, int]:
    """The correlation id of the response in buffer[start:end], and where its body begins.

    Raises:
        Malformed: the frame ends within the header, or its tagged fields make no sense.
    """
    if end - start < 4:
        raise Malformed(f"a frame of {end - start} bytes ends within its response header")
    correlation_id: int = _correlation_id.unpack_from(buffer, start)[0]
    if not response_header_version(api_key, api_version):
        return correlation_id, start + 4
    try:
        body = skip_tagged_fields(buffer, start + 4, end)
    except IndexError:
        body = end + 1
    if body > end:
        raise Malformed(f"a frame of {end - start} bytes ends within its response header")
    return correlation_id, body
