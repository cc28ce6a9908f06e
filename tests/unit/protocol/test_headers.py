"""Request and response headers."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import Malformed
from coordinator_protocol.headers import (
    read_client_id,
    read_intent,
    read_response_header,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from coordinator_protocol.varints import uvarint

HEARTBEAT = ApiKey.HEARTBEAT
ids = st.integers(-(1 << 31), (1 << 31) - 1)


@given(correlation_id=ids, client_id=st.none() | st.text(max_size=20), version=st.integers(0, 4))
def test_a_request_header_is_written_like_kio_and_read_back(
    correlation_id: int, client_id: str | None, version: int
) -> None:
    raw = request_header(HEARTBEAT, version, correlation_id, client_id)
    kio = KioHeaderV2 if version == 4 else KioHeaderV1
    buffer = io.BytesIO()
    entity_writer(kio)(
        buffer,
        kio(
            request_api_key=i16(HEARTBEAT),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        ),
    )
    assert raw == buffer.getvalue()
    inside = b"\x7f" * 3 + raw + b"body"
    told, body = read_client_id(inside, 3, len(inside))
    assert told == (client_id or "")
    assert inside[body:] == b"body"
    assert read_intent(inside, 3, len(inside)) == (HEARTBEAT, version, correlation_id)


@pytest.mark.parametrize("version", [3, 4])
def test_a_header_that_is_cut_is_malformed(version: int) -> None:
    raw = request_header(HEARTBEAT, version, 7, "client")
    for cut in range(len(raw)):
        for buffer in (raw[:cut], raw + raw):
            with pytest.raises(Malformed, match=f"a frame of {cut} bytes ends within"):
                read_client_id(buffer, 0, cut)


@given(noise=st.binary(max_size=40))
def test_noise_is_malformed_or_a_header(noise: bytes) -> None:
    for start in (0, min(2, len(noise))):
        try:
            _, body = read_client_id(noise, start, len(noise))
        except Malformed:
            continue
        assert start + 10 <= body <= len(noise)


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    raw = request_header(HEARTBEAT, 4, 7, "c")[:-1] + b"\x01\x05\x02ab"
    client_id, body = read_client_id(raw, 0, len(raw))
    assert client_id == "c"
    assert body == len(raw)


def test_a_header_with_hostile_tagged_fields_is_malformed() -> None:
    raw = request_header(HEARTBEAT, 4, 7, "c")[:-1] + b"\xff\xff\xff\xff\x07"
    with pytest.raises(Malformed, match="claims 2147483647 elements"):
        read_client_id(raw, 0, len(raw))


@pytest.mark.parametrize("tags", [b"\x05\0" * 3_000, b"\x05" + uvarint(6_000) + bytes(6_000)])
def test_tagged_fields_of_a_header_have_a_bound(tags: bytes) -> None:
    count = uvarint(3_000) if len(tags) == 6_000 else b"\1"
    raw = request_header(HEARTBEAT, 4, 7, "c")[:-1] + count + tags
    with pytest.raises(Malformed, match="claims"):
        read_client_id(raw, 0, len(raw))


def test_an_api_we_do_not_know_still_says_what_it_wants() -> None:
    raw = request_header(12_345, 9, 7, "c")
    assert read_intent(raw, 0, len(raw)) == (12_345, 9, 7)
    assert read_client_id(raw, 0, len(raw))[0] == "c"
    with pytest.raises(Malformed, match="a frame of 7 bytes"):
        read_intent(raw, 0, 7)


def test_a_client_id_that_is_no_text_is_repaired() -> None:
    raw = b"\0\x0c\0\0\0\0\0\x07\0\x02\xffA"
    assert read_client_id(raw, 0, len(raw))[0] == "\ufffdA"


def test_header_versions_follow_the_flexible_versions() -> None:
    assert [request_header_version(12, version) for version in (3, 4)] == [1, 2]
    assert [response_header_version(12, version) for version in (3, 4)] == [0, 1]
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    assert request_header_version(ApiKey.API_VERSIONS, 99) == 2


def test_the_answer_to_api_versions_never_has_tagged_fields() -> None:
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert response_header(ApiKey.API_VERSIONS, 3, 7) == b"\0\0\0\x07"


@pytest.mark.parametrize(("version", "raw"), [(3, b"\0\0\0\x07"), (4, b"\0\0\0\x07\0")])
def test_a_response_header_is_written_and_read_back(version: int, raw: bytes) -> None:
    assert response_header(HEARTBEAT, version, 7) == raw
    read = read_response_header(b"x" + raw + b"b", 1, 9, api_key=HEARTBEAT, api_version=version)
    assert read == (7, 1 + len(raw))
    for cut in range(len(raw)):
        with pytest.raises(Malformed, match=f"a frame of {cut} bytes ends within"):
            read_response_header(raw, 0, cut, api_key=HEARTBEAT, api_version=version)
        with pytest.raises(Malformed, match=f"a frame of {cut} bytes ends within"):
            read_response_header(raw[:cut], 0, cut, api_key=HEARTBEAT, api_version=version)
