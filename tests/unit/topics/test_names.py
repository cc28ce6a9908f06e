"""Topic names are judged as Kafka's `Topic` class judges them."""

import pytest

from coordinator_server.topics.names import MAX_NAME_LENGTH, collision_key, why_invalid


@pytest.mark.parametrize(
    "name", ["a", "A.b_c-9", "...", "x" * MAX_NAME_LENGTH, "__consumer_offsets"]
)
def test_legal_names_are_accepted(name: str) -> None:
    assert why_invalid(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than"),
        ("a/b", "contains one or more characters"),
        ("é", "contains one or more characters"),
        ("a\n", "contains one or more characters"),
        ("a\0", "contains one or more characters"),
    ],
)
def test_illegal_names_are_refused_with_the_reason(name: str, reason: str) -> None:
    found = why_invalid(name)
    assert found is not None
    assert found.startswith("Topic name is invalid: ")
    assert reason in found


def test_names_that_differ_in_dots_and_underscores_alone_share_a_key() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")
