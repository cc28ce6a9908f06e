"""Every message in every version, against kio's writer and against damage."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import MISSING, asdict, field, fields, make_dataclass
from inspect import signature
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_protocol.api_keys import FIRST_FLEXIBLE, NEVER, ApiKey
from coordinator_protocol.codec import load_api
from coordinator_protocol.decoder import Decoder, compile_decoder
from coordinator_protocol.encoder import Encoder, compile_encoder
from coordinator_protocol.errors import Malformed
from coordinator_protocol.messages.join_group import JoinGroupRequest
from coordinator_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.kio_messages import SIDES, Side, every_version, messages, written_by_kio
from tools import generate_messages
from tools.kio_schemas import Shape

relaxed = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    database=None,
)
HUGE = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe"]
_codecs: dict[tuple[Side, int], tuple[Encoder, Decoder]] = {}


def codecs(side: Side, version: int) -> tuple[Encoder, Decoder]:
    if (side, version) not in _codecs:
        flexible = side.messages.is_flexible(version)
        _codecs[side, version] = (
            compile_encoder(side.entity, version, flexible=flexible),
            compile_decoder(side.entity, version, flexible=flexible),
        )
    return _codecs[side, version]


def drawn(data: st.DataObject, side: Side, version: int) -> Any:
    return data.draw(messages(side.entity, side.kio(version), version), label=f"v{version}")


@pytest.mark.parametrize("side", SIDES, ids=str)
@given(data=st.data())
@settings(relaxed, max_examples=6)
def test_every_version_is_written_like_kio_and_read_back(side: Side, data: st.DataObject) -> None:
    for version in side.versions:
        encode, decode = codecs(side, version)
        message = drawn(data, side, version)
        body = encode(message)
        assert body == written_by_kio(message, side.kio(version))
        assert decode(body, 0, len(body)) == message
        assert decode(b"\xff" * 3 + body + b"\xff" * 9, 3, 3 + len(body)) == message
        assert decode(body + b"trailing", 0, len(body) + 8) == message


@pytest.mark.parametrize("side", SIDES, ids=str)
@given(data=st.data())
@settings(relaxed, max_examples=10)
def test_a_cut_body_is_malformed(side: Side, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(side.versions))
    encode, decode = codecs(side, version)
    body = encode(drawn(data, side, version))
    for cut in {*range(min(len(body), 40)), *range(max(len(body) - 40, 0), len(body))}:
        with pytest.raises(Malformed):
            decode(body[:cut], 0, cut)
        with pytest.raises(Malformed):
            decode(body, 0, cut)


@pytest.mark.parametrize("side", SIDES, ids=str)
@given(data=st.data())
@settings(relaxed, max_examples=10)
def test_a_damaged_body_is_malformed_or_another_message(side: Side, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(side.versions))
    encode, decode = codecs(side, version)
    body = bytearray(encode(drawn(data, side, version)))
    places = st.tuples(st.integers(0, max(len(body) - 1, 0)), st.binary(min_size=1, max_size=5))
    for place, damage in data.draw(st.lists(places, min_size=1, max_size=20)):
        damaged = bytes(body[:place] + damage + body[place + len(damage) :])
        assert read_or_refused(decode, damaged, side)


@given(noise=st.binary(max_size=60), data=st.data())
@settings(relaxed, max_examples=200)
def test_noise_is_malformed_or_a_message(noise: bytes, data: st.DataObject) -> None:
    side, version = data.draw(st.sampled_from(list(every_version())))
    assert read_or_refused(codecs(side, version)[1], noise, side)


def read_or_refused(decode: Decoder, body: bytes, side: Side) -> bool:
    try:
        return isinstance(decode(body, 0, len(body)), side.entity)
    except Malformed:
        return True


@pytest.mark.parametrize("side", SIDES, ids=str)
def test_a_claimed_size_is_not_allocated(side: Side) -> None:
    bodies = list(with_claims(side))
    tracemalloc.start()
    for decode, body in bodies:
        assert read_or_refused(decode, body, side)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def with_claims(side: Side) -> Iterator[tuple[Decoder, bytes]]:
    """Bodies in which any place may claim to be the length of something huge."""
    for version in side.versions:
        encode, decode = codecs(side, version)
        body = encode(side.entity())
        for place in range(len(body)):
            for claim in HUGE:
                yield decode, body[:place] + claim + body[place + 1 :] + bytes(50)
                yield decode, body[:place] + claim + body[place + len(claim) :]


def test_the_modules_are_what_the_generator_writes(tmp_path: Any) -> None:
    assert generate_messages.outdated(generate_messages.MESSAGES) == []
    generate_messages.write(tmp_path)
    assert generate_messages.outdated(tmp_path) == []
    changed = tmp_path / "heartbeat.py"
    changed.write_text(changed.read_text().replace("INT32", "INT64"))
    (tmp_path / "left_over.py").touch()
    assert generate_messages.outdated(tmp_path) == ["heartbeat.py", "left_over.py"]


@pytest.mark.interpreted
@pytest.mark.parametrize("entity", [JoinGroupRequest, SyncGroupRequest, SyncGroupRequestAssignment])
def test_a_constructor_that_is_written_out_is_what_dataclass_would_make(entity: Any) -> None:
    rules = [(each.name, each.default, each.default_factory) for each in fields(entity)]
    fields_alone = make_dataclass(
        "Made", [(name, Any, _default(value, factory)) for name, value, factory in rules]
    )
    names = [name for name, _, _ in rules]
    assert asdict(entity()) == asdict(fields_alone())
    assert list(signature(entity).parameters) == names
    told = asdict(entity(*names))
    assert told == {name: name for name in names}


def _default(value: Any, factory: Any) -> Any:
    return value if factory is MISSING else field(default_factory=factory)


def test_versions_that_cannot_be_united_are_an_error() -> None:
    shape = Shape("epoch", "INT32", "int", False, None, None, None)
    wider = Shape("epoch", "INT64", "int", False, None, None, None)
    with pytest.raises(generate_messages.Contradiction, match=r"T\.epoch: differs between"):
        list(generate_messages.one_field("T.epoch", "epoch", {0: shape, 1: wider}, [0, 1]))
    with pytest.raises(generate_messages.Contradiction, match=r"T\.epoch: versions with a gap"):
        list(generate_messages.one_field("T.epoch", "epoch", {0: shape, 2: shape}, [0, 1, 2]))


def test_all_apis_are_under_their_key() -> None:
    for name in generate_messages.APIS:
        key = ApiKey[name.upper()]
        api = load_api(key)
        assert api.key == key
        assert (NEVER if api.flexible is None else api.flexible) == FIRST_FLEXIBLE[key]


def test_names_are_kafkas() -> None:
    request = load_api(ApiKey.JOIN_GROUP).request
    assert list(request.__dataclass_fields__) == [
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    ]
