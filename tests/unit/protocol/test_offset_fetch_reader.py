"""The reader of usual OffsetFetch requests reads what the decoder of the message reads."""

from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_decoder, request_encoder
from coordinator_protocol.errors import Malformed
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coordinator_protocol.offset_fetch_reader import read_offset_fetch

VERSIONS = pytest.mark.parametrize("version", range(6, 10))
Topics = list[tuple[str, list[int]]] | None
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
INDEXES = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5) | st.integers(100, 300).map(
    lambda count: list(range(count))
)
TOPICS = st.none() | st.lists(st.tuples(TEXTS, INDEXES), max_size=4)


def encoded(version: int, group: str, topics: Topics, *, stable: bool, groups: int = 1) -> bytes:
    request = OffsetFetchRequest(require_stable=stable and version >= 7)
    if version < 8:
        request.group_id = group
        request.topics = (
            None
            if topics is None
            else [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics]
        )
    else:
        request.groups = [
            OffsetFetchRequestGroup(
                group,
                topics=None
                if topics is None
                else [
                    OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                    for name, indexes in topics
                ],
            )
        ] * groups
    return request_encoder(ApiKey.OFFSET_FETCH, version)(request)


def decoded(body: bytes, version: int) -> tuple[Any, ...] | None:
    try:
        request = request_decoder(ApiKey.OFFSET_FETCH, version)(body, 0, len(body))
    except Malformed:
        return None
    asked = request if version < 8 else request.groups[0]
    topics = asked.topics
    if topics is not None:
        topics = [(topic.name, topic.partition_indexes) for topic in topics]
    return asked.group_id, topics, request.require_stable


def read(body: bytes, version: int) -> tuple[Any, ...] | None:
    try:
        return read_offset_fetch(body, 0, len(body), version)
    except (IndexError, StructError, ValueError):
        return None


@VERSIONS
@given(
    group=TEXTS.filter(lambda text: len(text.encode()) <= 126), topics=TOPICS, stable=st.booleans()
)
def test_it_reads_the_same_fields(version: int, group: str, topics: Topics, stable: bool) -> None:
    body = encoded(version, group, topics, stable=stable)
    found = read(body, version)
    usual = all(len(name.encode()) <= 126 for name, _ in topics or ())
    assert (found is not None) is usual
    assert found is None or found == (group, topics, stable and version >= 7)
    assert found is None or found == decoded(body, version)


@VERSIONS
@given(group=TEXTS, topics=TOPICS, data=st.data())
def test_it_accepts_nothing_that_the_decoder_refuses(
    version: int, group: str, topics: Topics, data: st.DataObject
) -> None:
    body = bytearray(encoded(version, group, topics, stable=True))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(body[: data.draw(st.integers(1, len(body)))])
    found = read(damaged, version)
    assert found is None or found == decoded(damaged, version)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("groups", [0, 2])
def test_it_leaves_requests_of_several_groups_alone(version: int, groups: int) -> None:
    assert read(encoded(version, "g", None, stable=False, groups=groups), version) is None
