"""What requests have in common is read once, and makes no difference to what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.codec import request_decoder, request_encoder
from coordinator_protocol.decode_cache import MOST_BODIES, MOST_TAILS, BodyCache, SuffixCache
from coordinator_protocol.decoder import Decoder, compile_decoder
from coordinator_protocol.errors import Malformed
from coordinator_protocol.messages.join_group import API as JOIN
from coordinator_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coordinator_protocol.messages.sync_group import API as SYNC
from coordinator_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coordinator_protocol.schema import Api

TEXTS = st.sampled_from(["", "a", "b", "\u00e9", "x" * 200])
BLOBS = st.sampled_from([b"", b"m", b"n" * 300])
JOINS = st.builds(
    JoinGroupRequest,
    group_id=TEXTS,
    session_timeout_ms=st.sampled_from([1, 30_000]),
    member_id=TEXTS,
    group_instance_id=st.none() | TEXTS,
    protocol_type=TEXTS,
    protocols=st.lists(st.builds(JoinGroupRequestProtocol, TEXTS, BLOBS), max_size=3),
    reason=st.none() | TEXTS,
)
SYNCS = st.builds(
    SyncGroupRequest,
    group_id=TEXTS,
    generation_id=st.sampled_from([1, 2]),
    member_id=TEXTS,
    group_instance_id=st.none() | TEXTS,
    protocol_type=st.none() | TEXTS,
    protocol_name=st.none() | TEXTS,
    assignments=st.lists(st.builds(SyncGroupRequestAssignment, TEXTS, BLOBS), max_size=3),
)
VERSIONS = [(api, version) for api in (JOIN, SYNC) for version in range(api.last + 1)]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@given(data=st.data())
def test_requests_are_read_as_if_each_were_the_first(
    api: Api, version: int, data: st.DataObject
) -> None:
    plain = compile_decoder(api.request, version, flexible=api.is_flexible(version))
    decode = request_decoder(api.key, version)
    request = data.draw(JOINS if api is JOIN else SYNCS)
    body = request_encoder(api.key, version)(request)
    assert decode(body, 0, len(body)) == plain(body, 0, len(body))
    assert decode(b"?" + body + b"?", 1, len(body) + 1) == plain(body, 0, len(body))


def decoded(member_id: str, instance_id: str | None = None, more: bytes = b"") -> SyncGroupRequest:
    request = SyncGroupRequest("g", 1, member_id, instance_id, "consumer", "range", [])
    body = request_encoder(14, 5)(request) + more
    read: SyncGroupRequest = request_decoder(14, 5)(body, 0, len(body))
    assert read == request
    return read


def test_those_who_say_the_same_share_it() -> None:
    first, second, other = decoded("a"), decoded("b"), decoded("b", "one")
    assert first.assignments is second.assignments
    assert other.assignments is not first.assignments


def test_what_is_long_is_not_kept() -> None:
    more = bytes(64)
    assert decoded("a", None, more).assignments is not decoded("b", None, more).assignments


def test_what_is_malformed_is_so_each_time() -> None:
    body = request_encoder(14, 5)(SyncGroupRequest("g", 1, "m", None, "consumer", "range", []))
    for end in 2 * [*range(len(body))]:
        with pytest.raises(Malformed, match="SyncGroupRequest v5"):
            request_decoder(14, 5)(body + b"\1" * 100, 0, end)


def test_no_more_is_kept_than_there_are_kinds_of_members() -> None:
    tails = SuffixCache("member_id", 512)
    for number in range(10 * MOST_TAILS):
        assert tails.remember(b"%d" % number, (number,)) == (number,)
        assert len(tails) <= MOST_TAILS
    assert tails.remember(None, (1,)) == (1,)
    assert None not in tails


@pytest.mark.parametrize(
    "member_id", ["", "a", "x" * 126, "x" * 127, "x" * 300, "\u00e9", "\U0001f600"]
)
@pytest.mark.parametrize("group_id", ["", "g", "x" * 126, "x" * 127, "\u00e9"])
def test_members_of_a_known_tail_are_read_as_others_are(group_id: str, member_id: str) -> None:
    decoded("known")
    request = SyncGroupRequest(group_id, -1, member_id, None, "consumer", "range", [])
    body = request_encoder(14, 5)(request)
    assert request_decoder(14, 5)(b"?" + body + b"?", 1, len(body) + 1) == request


@pytest.mark.parametrize("name", [b"\xff", b"\xed\xa0\x80", b"a\xc3"])
def test_broken_text_before_a_known_tail_is_repaired_as_elsewhere(name: bytes) -> None:
    decoded("known")
    plain = compile_decoder(SyncGroupRequest, 5, flexible=True)
    body = request_encoder(14, 5)(SyncGroupRequest("g", 1, "m", None, "consumer", "range", []))
    for text in (b"g", b"m"):
        broken = body.replace(b"\2" + text, bytes((len(name) + 1,)) + name, 1)
        assert request_decoder(14, 5)(broken, 0, len(broken)) == plain(broken, 0, len(broken))


def test_a_known_tail_at_a_wrong_place_is_none() -> None:
    decoded("known")
    body = request_encoder(14, 5)(SyncGroupRequest("g", 1, "m", None, "consumer", "range", []))
    tail = body[len(b"\2g\0\0\0\1\2m") :]
    for own in (b"", b"\0", b"\2g", b"\2g\0\0\0\1", b"\2g\0\0\0\1\0", b"\x80\1g\0\0\0\1\2m"):
        with pytest.raises(Malformed):
            request_decoder(14, 5)(own + tail, 0, len(own + tail))


def test_a_body_that_is_known_is_not_read_again() -> None:
    read: list[bytes] = []

    def decode(buffer: bytes, start: int, end: int) -> bytes:
        read.append(buffer[start:end])
        return buffer[start:end]

    bodies = BodyCache(decode)
    for _ in range(2):
        assert bodies.decode(b"?body?", 1, 5) == b"body"
        assert bodies.decode(b"body", 0, 3) == b"bod"
        assert bodies.decode(bytes(200), 0, 200) == bytes(200)
    assert read == [b"body", b"bod", bytes(200), bytes(200)]


def test_no_more_bodies_are_kept_than_there_are_kinds() -> None:
    bodies = BodyCache(lambda buffer, start, end: buffer[start:end])
    for number in range(3 * MOST_BODIES):
        bodies.decode(b"%d" % number, 0, 3)
        assert len(bodies._known) <= MOST_BODIES


@pytest.mark.parametrize("key", [10, 18])
def test_a_connections_first_requests_that_are_malformed_are_so_each_time(key: int) -> None:
    for _ in range(2):
        with pytest.raises(Malformed):
            request_decoder(key, 3)(b"\7abc", 0, 4)


LEADERS = SyncGroupRequest(
    "g",
    1,
    "m",
    None,
    "consumer",
    "range",
    [SyncGroupRequestAssignment("m", b"a" * 200), SyncGroupRequestAssignment("n", b"")],
)


@pytest.mark.parametrize("version", [4, 5])
def test_a_leaders_request_that_is_cut_is_malformed_whatever_follows(version: int) -> None:
    body = request_encoder(14, version)(LEADERS)
    for end in range(len(body)):
        for behind in (b"", b"\0" * 300, b"\1" * 300, b"\xff" * 300):
            with pytest.raises(Malformed, match=f"SyncGroupRequest v{version}"):
                request_decoder(14, version)(body[:end] + behind, 0, end)


@pytest.mark.parametrize("version", [4, 5])
def test_a_leaders_request_with_any_byte_changed_is_read_as_by_the_decoder(version: int) -> None:
    plain = compile_decoder(SyncGroupRequest, version, flexible=True)
    body = request_encoder(14, version)(LEADERS)
    for place in range(len(body)):
        for byte in (0, 1, 2, 0x7F, 0x80, 0xFF):
            changed = body[:place] + bytes((byte,)) + body[place + 1 :]
            assert read_or_refused(request_decoder(14, version), changed) == read_or_refused(
                plain, changed
            )


def read_or_refused(decode: Decoder, body: bytes) -> object:
    try:
        return decode(body, 0, len(body))
    except Malformed as refusal:
        return str(refusal)
