"""Answers made from a template, held against those that are written from messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.codec import response_encoder
from protocol.join_answers import follower_joined, synced
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

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
