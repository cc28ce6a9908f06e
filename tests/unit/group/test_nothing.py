"""What all groups share that have nothing of their own."""

import pytest

from coordinator_server.group.classic.kind import ClassicKind
from coordinator_server.group.empty_dict import NOTHING
from coordinator_server.group.offsets import OffsetStore
from tests.support.group_harness import GroupHarness


def test_nothing_takes_no_entries() -> None:
    with pytest.raises(TypeError, match="has to stay empty"):
        NOTHING["a"] = 1
    with pytest.raises(TypeError, match="has to stay empty"):
        NOTHING.setdefault("a", 1)
    with pytest.raises(TypeError, match="has to stay empty"):
        NOTHING.update(a=1)
    assert NOTHING == {}


def test_a_group_and_its_offsets_share_what_is_empty() -> None:
    group = ClassicKind("group", 0)
    emptied: list[object] = [group.members, group.static_members, group.pending, group.pending_sync]
    emptied += [group.supported_protocols, OffsetStore().pending]
    assert all(each is NOTHING for each in emptied)


def test_what_a_group_has_emptied_is_shared_again() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    group = story.classic
    emptied: list[object] = [group.pending, group.pending_sync, group.static_members]
    a.leave()
    emptied += [group.members, group.supported_protocols]
    assert all(each is NOTHING for each in emptied)


def test_the_last_static_member_that_goes_leaves_an_empty_map_that_is_shared() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", instance="i-a")
    a.leave()
    assert story.classic.static_members is NOTHING
