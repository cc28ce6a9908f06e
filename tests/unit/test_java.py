"""Figures by a Java 17: `String.hashCode`, `HashMap` order, Kafka's `Utils.abs`."""

import pytest

from coordinator_protocol.java import hash_map_bucket, java_hash, partition_for, positive


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(2**31)),
        ("gr\u00fc\u00dfe", 98_768_023),
        ("group-\U0001f600", 508_083_057),
        ("x" * 1_000, -1_715_418_112),
        ("\u00e9" + "y" * 200, 1_072_785_513),
    ],
)
def test_text_hashes_as_in_java(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_half_a_surrogate_pair_hashes_too() -> None:
    assert java_hash("\ud83d") == 0xD83D


@pytest.mark.parametrize(("number", "made"), [(-(2**31), 0), (-1, 1), (0, 0), (2**31 - 1,) * 2])
def test_the_smallest_number_is_made_positive_as_zero(number: int, made: int) -> None:
    assert positive(number) == made


@pytest.mark.parametrize(
    ("group_id", "partition"), [("polygenelubricants", 0), ("group-\U0001f600", 7), ("", 0)]
)
def test_groups_belong_to_kafkas_partitions(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


@pytest.mark.parametrize(
    "names",
    [
        ["range", "roundrobin"],
        ["sticky", "range"],
        ["range", "cooperative-sticky"],
        ["roundrobin", "cooperative-sticky"],
        ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "pa", "pb", "pc", "pd"],
    ],
)
def test_a_hash_map_is_iterated_in_javas_order(names: list[str]) -> None:
    shuffled = names[::-1]
    assert sorted(shuffled, key=lambda name: hash_map_bucket(name, len(names))) == names
