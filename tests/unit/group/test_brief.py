"""What is kept of the texts clients send, for people to read."""

from coordinator_server.group.rebalance_events import Culprit, brief


def test_a_text_that_is_cut_says_so() -> None:
    assert brief("x" * 255) == "x" * 255
    assert brief("x" * 256) == "x" * 254 + "\u2026"


def test_a_member_with_a_long_name_is_kept_with_a_short_one() -> None:
    short = Culprit("m", None, "client", "/10.0.0.1")
    assert short.brief() is short
    for field in Culprit._fields:
        long = short._replace(**{field: "x" * 32_000}).brief()
        assert long == short._replace(**{field: brief("x" * 32_000)})
