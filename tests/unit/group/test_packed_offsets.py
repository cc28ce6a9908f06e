"""Offsets that a load leaves as the bytes of their records until somebody looks at them."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.commit_template import CommitTemplate, Place
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import encode_value
from coordinator_server.group.classic.state import ClassicGroupState
from coordinator_server.group.commits import repeated
from coordinator_server.group.events import CommitOffsets
from coordinator_server.group.group import Group
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.replay import apply_packed
from tests.support.classic import classic_of
from tests.support.group_requests import offset
from tests.support.offsets import topics_of

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
    assert classic_of(group).state is ClassicGroupState.EMPTY
    assert classic_of(group).protocol_type is None
    assert classic_of(group).state_since == -1, "the log does not say"
    assert group.offsets.fetch(None, require_stable=False) == [("orders", [(0, PACKED)])]


def test_packed_offsets_join_those_of_a_group_that_is_there() -> None:
    group = Group("g")
    apply_packed(group, "orders", ((0, PACKED),))
    first = group.kind
    apply_packed(group, "orders", ((1, PACKED),))
    assert group.kind is first
    assert sorted(group.offsets.of_topic("orders")) == [0, 1]


def packed(offset: int) -> bytes:
    return offset.to_bytes(8, "big")


def commit_of(places: list[tuple[str, int]]) -> CommitTemplate:
    return CommitTemplate("group", [Place(topic, index, -1, "") for topic, index in places])


PLACES = st.lists(
    st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 3)), min_size=1, unique=True
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("again"), st.integers(0, 1)),
        st.tuples(st.just("put"), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 3)),
        st.tuples(st.just("pend"), st.integers(0, 3)),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("look"), st.just(0)),
    )
)


@given(PLACES, PLACES, CHANGES)
def test_commits_kept_as_they_were_encoded_are_the_same_for_whoever_looks(
    first: list[tuple[str, int]], second: list[tuple[str, int]], changes: list[tuple[str, int]]
) -> None:
    templates = [commit_of(first), commit_of(second)]
    kept, laid_open = OffsetStore(), OffsetStore()
    for number, (what, which) in enumerate(changes):
        value = OffsetCommitValue(number, -1, "", 1)
        if what == "again":
            template = templates[which]
            encoded = template.encode(0, [packed(number)] * template.records, 1)
            kept.put_encoded(template, encoded)
            for topic, values in template.values(encoded):
                laid_open.put_packed(topic, values)
        elif what == "look":
            assert kept.committed == laid_open.committed
        for store in (kept, laid_open):
            if what == "put":
                store.put("orders", which, value)
            elif what == "remove":
                store.remove("orders", which)
            elif what == "pend":
                store.put_pending(7, number, "orders", which, value)
            elif what == "end":
                store.end_transaction(7, commit=bool(which))
    assert bool(kept) is bool(laid_open)
    assert kept.committed == laid_open.committed
    assert sorted(kept.partitions()) == sorted(laid_open.partitions())


def test_two_commits_that_come_again_by_turns_are_both_kept() -> None:
    offsets = OffsetStore()
    templates = [commit_of([("orders", 0)]), commit_of([("orders", 1)])]
    for number in range(4):
        template = templates[number % 2]
        offsets.put_encoded(template, template.encode(0, [packed(number)], 1))
    assert {place: value.offset for place, value in offsets.of_topic("orders").items()} == {
        0: 2,
        1: 3,
    }


def test_a_commit_that_comes_again_is_newer_than_what_transactions_have_pending() -> None:
    offsets = OffsetStore()
    template = commit_of([("orders", 0)])
    offsets.put_pending(9, 1, "orders", 0, OLDER)
    offsets.put_encoded(template, template.encode(0, [packed(43)], 2_000))
    offsets.end_transaction(9, commit=True)
    assert offsets.get("orders", 0) == OffsetCommitValue(43, -1, "", 2_000)


def test_a_repeated_commit_is_in_the_groups_memory() -> None:
    group = Group("group")
    apply_packed(group, "orders", ((0, PACKED),))
    topics = topics_of([offset(1)])
    repeat = repeated("group", CommitOffsets(None, "", None, -1, topics, -1, True))
    group.commit_again(repeat, repeat.template.encode(0, [packed(43)], 2_000))
    assert group.offsets.get("orders", 0) == OffsetCommitValue(43, -1, "", 2_000)
