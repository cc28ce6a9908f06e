"""Answers made from a template, held against those that are written from messages."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.join_answers import follower_joined, leader_joined, not_joined, synced
from coordinator_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from coordinator_protocol.messages.sync_group import SyncGroupResponse

TEXTS = st.text(st.characters(codec="utf-8"), max_size=300)


@pytest.mark.parametrize("version", range(10))
@given(generation=st.integers(-1, 2**31 - 1), texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS))
def test_a_follower_is_told_the_same_as_by_a_message(
    version: int, generation: int, texts: tuple[str, str, str, str]
) -> None:
    protocol_type, protocol_name, leader, member_id = texts
    message = JoinGroupResponse(
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
        member_id=member_id,
    )
    body = follower_joined(version, generation, *texts)
    assert body == response_encoder(ApiKey.JOIN_GROUP, version)(message)


@pytest.mark.parametrize("version", range(10))
@given(error=st.integers(-1, 120), name=TEXTS, member_id=TEXTS)
def test_who_is_refused_is_told_the_same_as_by_a_message(
    version: int, error: int, name: str, member_id: str
) -> None:
    message = JoinGroupResponse(error_code=error, protocol_name=name, member_id=member_id)
    body = not_joined(version, error, name, member_id)
    assert body == response_encoder(ApiKey.JOIN_GROUP, version)(message)


MEMBERS = st.lists(st.tuples(TEXTS, st.none() | TEXTS, st.binary(max_size=300)), max_size=200)


@pytest.mark.parametrize("version", range(10))
@given(
    generation=st.integers(-1, 2**31 - 1),
    texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS),
    members=MEMBERS,
    skips=st.booleans(),
)
@example(1, ("", "", "", ""), [("a", None, b"")] * 127, False)
def test_a_leader_is_told_the_same_as_by_a_message(
    version: int,
    generation: int,
    texts: tuple[str, str, str, str],
    members: list[tuple[str, str | None, bytes]],
    skips: bool,
) -> None:
    protocol_type, protocol_name, leader, member_id = texts
    message = JoinGroupResponse(
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
        skip_assignment=skips,
        member_id=member_id,
        members=[JoinGroupResponseMember(*member) for member in members],
    )
    body = leader_joined(version, generation, *texts, members, skip_assignment=skips)
    assert body == response_encoder(ApiKey.JOIN_GROUP, version)(message)


@pytest.mark.parametrize("version", range(6))
@given(names=st.tuples(TEXTS, TEXTS), assignment=st.binary(max_size=300))
def test_a_member_is_assigned_the_same_as_by_a_message(
    version: int, names: tuple[str, str], assignment: bytes
) -> None:
    message = SyncGroupResponse(
        protocol_type=names[0], protocol_name=names[1], assignment=assignment
    )
    body = synced(version, *names, assignment)
    assert body == response_encoder(ApiKey.SYNC_GROUP, version)(message)


def test_protocols_may_be_unknown() -> None:
    message = SyncGroupResponse(assignment=b"mine")
    assert synced(5, None, None, b"mine") == response_encoder(ApiKey.SYNC_GROUP, 5)(message)
