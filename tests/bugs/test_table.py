"""No report is forgotten."""

from tests.bugs.table import IN_PART, NOT_THERE, NUMBERS, PAGE, cases, page


def test_every_number_is_tested_or_listed_with_the_reason_why_not() -> None:
    tested = {case.number for case in cases()}
    assert tested | NOT_THERE.keys() == set(NUMBERS)
    assert not tested & NOT_THERE.keys()
    assert set(IN_PART) <= tested


def test_the_page_is_what_the_tests_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.bugs.table`"
