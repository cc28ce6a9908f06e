"""Nothing that clients choose grows without bound in a group."""

import gc
import weakref

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic import history, join
from coordinator_server.group.classic.history import MAX_NAMED, Changes
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Joined, Rule
from coordinator_server.group.interning import MAX_SHARED, MAX_SHARED_CHARS, text_alike
from coordinator_server.group.rebalance_events import Culprit
from tests.support.group_harness import GroupHarness

FOREVER_MS = 2**31 - 1


class Text(str):
    """A string that can be watched."""

    __slots__ = ("__weakref__",)


def culprit(number: int) -> Culprit:
    return Culprit(f"m-{number}", None, "c", "/h")


def test_a_join_phase_that_lasts_names_a_hundred_and_counts_all() -> None:
    story = GroupHarness()
    frozen = story.member("frozen", rebalance=FOREVER_MS, session=FOREVER_MS)
    frozen.join()
    frozen.join()
    story.settle(frozen)
    guests = 3 * MAX_NAMED
    for number in range(guests):
        guest = story.member(f"guest-{number}", known=False)
        guest.join()
        (guest.member_id,) = set(story.classic.members) - {frozen.member_id}
        guest.leave()
        story.advance(1)
    changes = story.classic.history.changes
    assert changes is not None
    assert (changes.joined.count, changes.left.count) == (guests, guests)
    assert (len(changes.joined.first), len(changes.left.first)) == (MAX_NAMED, MAX_NAMED)
    story.rejoin(frozen)
    event = story.rebalances[-1]
    assert (event.counts.joined, event.counts.left) == (guests, guests)
    assert (len(event.joined), len(event.left)) == (MAX_NAMED, MAX_NAMED)
    assert event.joined[0].client_id == "guest-0"


def test_names_that_are_kept_are_cut() -> None:
    changes = Changes()
    changes.evicted.append(Culprit("m" * 32_000, None, "c" * 32_000, "/h"))
    (kept,) = changes.evicted.first
    assert sum(len(text or "") for text in kept) < 1_100


@pytest.mark.interpreted
def test_who_is_waited_for_is_told_apart_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_COUNTED", 50)
    changes = Changes()
    for number in range(2 * MAX_NAMED):
        for _ in range(3):
            changes.waited(culprit(number), 10)
    assert len(changes.waited_for) == MAX_NAMED
    assert set(changes.waited_for.values()) == {30}
    assert changes.waited_for_count == MAX_NAMED + 50


@pytest.mark.interpreted
def test_shared_texts_are_let_go() -> None:
    """`sys.intern` keeps each for ever on Python 3.12."""
    text = Text("client-of-a-test")
    watched = weakref.ref(text)
    assert text_alike(text) is text
    del text
    for number in range(MAX_SHARED):
        text_alike(f"another-{number}")
    gc.collect()
    assert watched() is None
    assert text_alike("x" * (MAX_SHARED_CHARS + 1)) is not text_alike(
        "".join(["x"] * (MAX_SHARED_CHARS + 1))
    )


def test_members_share_what_they_have_alike() -> None:
    story = GroupHarness()
    members = story.stable(*(f"{word}p" for word in ("ap", "ap")))
    one, two = (story.classic.members[member.member_id] for member in members)
    assert one.client_id is two.client_id
    assert one.protocols[0][0] is two.protocols[0][0]


@pytest.mark.parametrize("known", [True, False])
def test_a_member_with_too_much_metadata_is_refused_before_it_is_kept(*, known: bool) -> None:
    story = GroupHarness(limits=Limits(member_metadata_max_bytes=1_000))
    fits = (("range", b"x" * 500), ("sticky", b"x" * 489))
    much = (*fits, ("r", b"x"))
    member = story.member("a", protocols=much, known=known)
    request = member.join()
    assert request.error is ErrorCode.INVALID_REQUEST
    assert request.rule is Rule.MEMBER_METADATA_TOO_LARGE
    assert story.group.kind is None
    member.protocols = fits
    member.join()
    if known:
        request = member.join()
        story.advance(10_000)
        assert isinstance(request.result, Joined)
    assert len(story.classic.members) == 1


@pytest.mark.interpreted
def test_ids_that_are_handed_out_and_not_used_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "MAX_PENDING", 5)
    story = GroupHarness()
    first = story.member("first")
    first.join()
    others = [story.member(f"other-{number}") for number in range(5)]
    for other in others:
        other.join()
    assert len(story.classic.pending) == 5
    assert first.member_id not in story.classic.pending
    assert story.removed == [("first", "pending_expired")]
    assert first.join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert others[-1].member_id in story.classic.pending
