"""Offsets that a load leaves as the bytes of their records until somebody looks at them."""

from coordinator_server.group.classic.state import ClassicGroupState
from coordinator_server.group.machine import Group
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.replay import apply_packed
from protocol.offset_value import OffsetCommitValue
from protocol.records import encode_value

VALUE = OffsetCommitValue(42, 3, "note", 1_000)
OLDER = OffsetCommitValue(7, -1, "", 500)
PACKED = encode_value(VALUE)


def test_packed_offset_is_what_its_record_says() -> None:
    offsets = OffsetStore()
    offsets.put_packed("orders", ((0, PACKED),))
    assert offsets.get("orders", 0) == VALUE


def test_packed_and_plain_offsets_of_a_topic_are_told_alike() -> None:
    offsets = OffsetStore()
    offsets.put("orders", 1, OLDER)
    offsets.put_packed("orders", ((0, PACKED),))
    assert offsets.of_topic("orders") == {0: VALUE, 1: OLDER}
    assert offsets.committed == {"orders": {0: VALUE, 1: OLDER}}
    assert len(offsets) == 2


def test_packed_offset_is_newer_than_what_transactions_have_pending() -> None:
    offsets = OffsetStore()
    offsets.put_pending(9, 1, "orders", 0, OLDER)
    offsets.put_pending(9, 2, "orders", 1, OLDER)
    offsets.put_packed("orders", ((0, PACKED),))
    offsets.end_transaction(9, commit=True)
    assert offsets.of_topic("orders") == {0: VALUE, 1: OLDER}


def test_packed_offsets_make_a_simple_group() -> None:
    group = Group("g")
    apply_packed(group, "orders", ((0, PACKED),))
    assert group.classic is not None
    assert group.classic.state is ClassicGroupState.EMPTY
    assert group.classic.protocol_type is None
    assert group.classic.state_since == -1, "the log does not say"
    assert group.offsets.fetch(None, require_stable=False) == [("orders", [(0, PACKED)])]


def test_packed_offsets_join_those_of_a_group_that_is_there() -> None:
    group = Group("g")
    apply_packed(group, "orders", ((0, PACKED),))
    first = group.classic
    apply_packed(group, "orders", ((1, PACKED),))
    assert group.classic is first
    assert sorted(group.offsets.of_topic("orders")) == [0, 1]
