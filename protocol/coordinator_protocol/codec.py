"""Decoders and encoders by API key and version, compiled when first asked for.

A server reads requests and writes responses; clients, tests and tools do the reverse. The module of
an API's messages is imported with its first codec, so that start-up pays only for what it uses.
"""

from functools import cache
from importlib import import_module
from typing import Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.decode_cache import BodyCache, PrefixDecoder, SuffixCache
from coordinator_protocol.decoder import (
    Decoder,
    SlicedDecoder,
    compile_decoder,
    compile_sliced_decoder,
)
from coordinator_protocol.encoder import (
    Encoder,
    PartsEncoder,
    compile_encoder,
    compile_parts_encoder,
)
from coordinator_protocol.schema import Api


class UnknownApi(ValueError):
    """There is no codec for an API key, or none for that version of it."""


@cache
def load_api(api_key: int) -> Api:
    """The messages and versions of an API.

    Raises:
        UnknownApi: there is no such API here.
    """
    try:
        name = ApiKey(api_key).name.lower()
        module = import_module(f"coordinator_protocol.messages.{name}")
    except (ValueError, ModuleNotFoundError):
        raise UnknownApi(f"no messages for API key {api_key}") from None
    api: Api = module.API
    return api


def _checked(api_key: int, version: int) -> Api:
    api = load_api(api_key)
    if not api.first <= version <= api.last:
        name = ApiKey(api_key).name
        raise UnknownApi(f"{name} v{version}: there are versions {api.first} to {api.last}")
    return api


@cache
def request_decoder(api_key: int, version: int) -> Decoder:
    """Reads the body of a request; raises UnknownApi."""
    api = _checked(api_key, version)
    flexible = api.is_flexible(version)
    alike = _ALIKE.get(api_key)
    if alike is None:
        decode = compile_decoder(api.request, version, flexible=flexible)
        return BodyCache(decode).decode if api_key in _ALIKE_AS_A_WHOLE else decode
    numbers, longest = alike
    tails = SuffixCache("member_id", longest)
    decode = compile_decoder(api.request, version, flexible=flexible, tails=tails)
    if not flexible:
        return decode
    if api_key == ApiKey.SYNC_GROUP:
        from coordinator_protocol.sync_group_decoder import LeaderSyncDecoder

        decode = LeaderSyncDecoder(version, decode).decode
    return PrefixDecoder(api.request, numbers, tails, decode).decode


@cache
def sliced_request_decoder(api_key: int, version: int) -> SlicedDecoder:
    """Reads the body of a large request, element by element; raises UnknownApi."""
    api = _checked(api_key, version)
    return compile_sliced_decoder(api.request, version, flexible=api.is_flexible(version))


_ALIKE: Final[dict[int, tuple[int, int]]] = {
    ApiKey.JOIN_GROUP: (2, 512),
    ApiKey.SYNC_GROUP: (1, 64),
}
"""Requests of which members of a group all say the same behind the member id.

So many int32 are between the group id and that, and so many bytes has what they say: a leader's
assignments are longer, and nobody else's.
"""


_ALIKE_AS_A_WHOLE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR})
"""Requests that every client of a program, and every member of a group, words alike."""


@cache
def response_encoder(api_key: int, version: int) -> Encoder:
    """Writes the body of a response; raises UnknownApi."""
    api = _checked(api_key, version)
    return compile_encoder(api.response, version, flexible=api.is_flexible(version))


@cache
def response_parts_encoder(api_key: int, version: int) -> PartsEncoder:
    """Writes the body of a response that may be too large to be copied; raises UnknownApi."""
    api = _checked(api_key, version)
    return compile_parts_encoder(api.response, version, flexible=api.is_flexible(version))


@cache
def part_encoder(part: type[object], api_key: int, version: int) -> Encoder:
    """Writes an element of an array, for who writes a long one bit by bit; raises UnknownApi."""
    api = _checked(api_key, version)
    return compile_encoder(part, version, flexible=api.is_flexible(version))


@cache
def request_encoder(api_key: int, version: int) -> Encoder:
    """Writes the body of a request; raises UnknownApi."""
    api = _checked(api_key, version)
    return compile_encoder(api.request, version, flexible=api.is_flexible(version))


@cache
def response_decoder(api_key: int, version: int) -> Decoder:
    """Reads the body of a response; raises UnknownApi."""
    api = _checked(api_key, version)
    return compile_decoder(api.response, version, flexible=api.is_flexible(version))
