"""The list of what Kafka does names tests and decisions that exist, and agrees with the code."""

from dataclasses import replace

import pytest

from tools.compatibility_page import Feature, _mistakes, mistakes

FINE = Feature("Does it", "same", tests=("states:join_new",))


def test_whatever_is_said_to_be_tested_is() -> None:
    assert list(mistakes()) == []


@pytest.mark.parametrize(
    ("feature", "mistake"),
    [
        (replace(FINE, status="similar"), "is 'similar', expected one of same, different, absent"),
        (replace(FINE, why="so"), "is the same, and yet says why it is not"),
        (replace(FINE, status="different"), "is different and does not say why"),
        (replace(FINE, status="absent"), "is absent and does not say why"),
        (replace(FINE, tests=()), "is not tested"),
        (replace(FINE, decision="b"), "refers to 'b', which is not in decisions.md"),
        *(
            (replace(FINE, tests=(test,)), f"is tested by '{test}', which does not exist")
            for test in (
                "oracle:join/nothing",
                "states:nothing",
                "unit/test_compatibility.py::test_nothing",
                "unit/test_nothing.py::test_nothing",
            )
        ),
    ],
)
def test_a_mistake_is_named(feature: Feature, mistake: str) -> None:
    assert list(_mistakes(feature, "| a | decision |")) == [mistake]


@pytest.mark.parametrize(
    "test",
    [
        "oracle:join/lifecycle-v*",
        "states:join_new",
        "unit/test_compatibility.py::test_a_mistake_is_named",
    ],
)
def test_what_exists_is_found(test: str) -> None:
    assert list(_mistakes(replace(FINE, tests=(test,)), "")) == []
