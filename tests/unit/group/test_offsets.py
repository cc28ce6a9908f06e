"""OffsetCommit and OffsetFetch of a group."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_server.group.commits import repeated
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Committed, FetchedOffset, Rule
from coordinator_server.group.events import CommitOffsets
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness, Request, offset
from tests.support.offsets import topics_of


def errors(request: Request) -> list[ErrorCode]:
    assert isinstance(request.result, Committed)
    return list(request.result.errors)


# --- who may commit ---


def test_anybody_may_commit_for_a_group_that_does_not_exist() -> None:
    story = GroupHarness()
    assert errors(story.commit(offset(42))) == [ErrorCode.NONE]
    assert story.state == "Empty"
    assert story.classic.protocol_type is None
    assert story.fetch()["orders", 0].offset == 42


def test_a_commit_of_nothing_makes_no_group() -> None:
    story = GroupHarness()
    assert errors(story.commit(topics=())) == []
    assert story.group.is_vacant


@pytest.mark.parametrize(
    ("new_client", "error"),
    [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)],
)
def test_a_generation_of_a_group_that_does_not_exist_is_refused(
    new_client: bool, error: ErrorCode
) -> None:
    story = GroupHarness()
    request = story.commit(generation=1, member_id="x", knows_group_id_not_found=new_client)
    assert (request.error, request.rule) == (error, Rule.GROUP_UNKNOWN)
    assert story.group.is_vacant


def test_anybody_may_commit_for_an_empty_group() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    assert story.commit().error is ErrorCode.NONE
    assert story.commit(member_id="x").error is ErrorCode.NONE
    assert story.commit(generation=2, member_id="x").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_commit_while_the_group_is_stable_or_joining() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    assert a.commit().error is ErrorCode.NONE
    b.leave()
    assert story.state == "PreparingRebalance"
    assert a.commit().error is ErrorCode.NONE


def test_members_do_not_commit_while_the_assignment_is_awaited() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    story.advance(DELAY_MS)
    request = a.commit()
    assert (request.error, request.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        (
            {"member_id": "", "generation": -1},
            ErrorCode.UNKNOWN_MEMBER_ID,
            Rule.COMMIT_WITHOUT_MEMBERSHIP,
        ),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_UNKNOWN),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS),
        ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS),
        (
            {"group_instance_id": "i", "member_id": "", "generation": -1},
            ErrorCode.UNKNOWN_MEMBER_ID,
            Rule.INSTANCE_UNKNOWN,
        ),
    ],
)
def test_nobody_else_commits_for_a_group_with_members(
    changes: dict[str, object], error: ErrorCode, rule: Rule
) -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    request = a.commit(**changes)
    assert (request.error, request.rule) == (error, rule)
    assert story.fetch() == {}


def test_a_commit_keeps_the_session_alive() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    for _ in range(5):
        story.advance(SESSION_MS - 1)
        assert a.commit().error is ErrorCode.NONE


def test_a_commit_that_comes_again_keeps_the_session_alive() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")

    def comes_again() -> None:
        asked = CommitOffsets(
            None, a.member_id, None, a.generation, topics_of([offset(1)]), -1, True
        )
        assert story.group.takes_again(repeated("group", asked), story.context())

    story.advance(SESSION_MS - 1)
    comes_again()
    b.heartbeat()
    story.advance(SESSION_MS - 1)
    b.leave()
    assert story.state == "PreparingRebalance"
    comes_again()
    story.advance(SESSION_MS - 1)
    assert story.removed == [("b", "left")]
    story.advance(1)
    assert story.removed[1:] == [("a", "session_expired")]


def test_a_refused_commit_keeps_no_session_alive() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.advance(5_000)
    a.commit(generation=7)
    story.advance(5_000)
    assert story.removed == [("a", "session_expired")]


def test_a_zombies_commit_in_a_generation_issued_again_is_refused() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    zombie = story.member("b")
    zombie.enter()
    a.join()
    assert zombie.generation == 2
    story.restart()
    assert story.generation == 1
    a.join()
    assert a.generation == 2
    a.sync()
    assert zombie.commit().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 5])
def test_nobody_commits_with_a_generation_for_a_group_without_members(generation: int) -> None:
    story = GroupHarness()
    assert story.commit(generation=generation).error is ErrorCode.GROUP_ID_NOT_FOUND
    story.commit()
    assert story.state == "Empty"
    assert story.commit(generation=generation).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 5])
def test_a_commit_with_a_generation_names_its_member(generation: int) -> None:
    story = GroupHarness()
    story.stable("a")
    refused = story.commit(generation=generation)
    assert (refused.error, refused.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_UNKNOWN)


# --- what is committed ---


def test_a_commit_is_written_as_it_was_sent() -> None:
    story = GroupHarness()
    story.commit(offset(7, partition=3, topic="orders", metadata="where", epoch=5))
    assert story.writes[0].value == OffsetCommitValue(7, 5, "where", story.wall)
    assert story.fetch()["orders", 3] == FetchedOffset(3, 7, 5, "where", ErrorCode.NONE)


def test_the_last_commit_of_a_partition_counts() -> None:
    story = GroupHarness()
    story.commit(offset(1), offset(3), offset(2))
    assert story.fetch()["orders", 0].offset == 2


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("m" * 16, ErrorCode.NONE),
        ("m" * 17, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\u00fc" * 16, ErrorCode.NONE),
        ("\U0001f600" * 8, ErrorCode.NONE),
        ("\U0001f600" * 8 + "m", ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_the_length_of_metadata_is_limited_in_javas_characters(
    metadata: str, error: ErrorCode
) -> None:
    story = GroupHarness(limits=Limits(offset_metadata_max_chars=16))
    request = story.commit(offset(1, metadata=metadata), offset(2, partition=1))
    assert errors(request) == [error, ErrorCode.NONE]
    assert (("orders", 0) in story.fetch()) == (error is ErrorCode.NONE)
    assert story.fetch()["orders", 1].offset == 2


def test_a_commit_of_which_nothing_is_accepted_makes_no_group() -> None:
    story = GroupHarness(limits=Limits(offset_metadata_max_chars=3))
    story.commit(offset(1, metadata="long"))
    assert story.group.is_vacant
    assert story.writes == []


def test_the_first_metadata_that_is_too_long_is_explained() -> None:
    story = GroupHarness(limits=Limits(offset_metadata_max_chars=3))
    request = story.commit(
        offset(1, metadata="m"), *(offset(1, partition, metadata="long") for partition in (4, 5))
    )
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert request.result == Committed([ErrorCode.NONE, too_large, too_large])
    assert isinstance(request.result, Committed)
    (refused,) = request.result.refused
    assert (refused.error, refused.rule) == (too_large, Rule.METADATA_TOO_LONG)
    assert refused.detail == (
        "the metadata of partition 4 of 'orders' is too long: "
        "offset.metadata.max.bytes allows 3 characters"
    )


@pytest.mark.parametrize(
    ("retention", "expires"),
    [
        (-1, -1),
        (0, 1_700_000_000_000),
        (3_600_000, 1_700_003_600_000),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), 1_700_000_000_000 - 2**63),
    ],
)
def test_a_retention_of_the_requests_own_is_written_down(retention: int, expires: int) -> None:
    story = GroupHarness()
    assert errors(story.commit(retention_ms=retention)) == [ErrorCode.NONE]
    value = story.writes[0].value
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp == expires


def test_metadata_has_to_fit_into_the_old_record_that_carries_a_retention() -> None:
    story = GroupHarness(limits=Limits(offset_metadata_max_chars=100_000))
    long = offset(1, metadata="m" * 40_000)
    assert errors(story.commit(long)) == [ErrorCode.NONE]
    assert errors(story.commit(long, retention_ms=1)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_metadata_may_come_with_a_retention() -> None:
    story = GroupHarness()
    assert errors(story.commit(offset(1, metadata="note"), retention_ms=1)) == [ErrorCode.NONE]
    assert story.fetch()["orders", 0].metadata == "note"


@pytest.mark.parametrize("retention", [-1, 1])
def test_a_commit_without_metadata_is_told_with_an_empty_one(retention: int) -> None:
    story = GroupHarness()
    given = offset(1)._replace(metadata=None)
    assert errors(story.commit(given, retention_ms=retention)) == [ErrorCode.NONE]
    assert story.fetch()["orders", 0].metadata == ""


def test_a_commit_too_large_for_one_append_is_refused_as_a_whole() -> None:
    story = GroupHarness(limits=Limits(max_append_bytes=1_000))
    request = story.commit(*(offset(1, partition=i) for i in range(10)))
    assert (request.error, request.rule) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        Rule.COMMIT_TOO_LARGE,
    )
    assert story.group.is_vacant


# --- what is fetched ---


def test_of_what_does_not_exist_there_is_no_offset_and_no_error() -> None:
    nothing = FetchedOffset(3, -1, -1, "", ErrorCode.NONE)
    story = GroupHarness()
    assert story.fetch([("orders", [3])]) == {("orders", 3): nothing}
    assert story.fetch() == {}
    assert story.group.is_vacant
    story.commit(offset(1))
    assert story.fetch([("orders", [0, 3])])["orders", 3] == nothing
    assert story.fetch([("other", [3])]) == {("other", 3): nothing}


def test_all_offsets_are_fetched_by_topic() -> None:
    story = GroupHarness()
    story.commit(offset(1), offset(2, partition=1), offset(3, topic="other"))
    assert {place: found.offset for place, found in story.fetch().items()} == {
        ("orders", 0): 1,
        ("orders", 1): 2,
        ("other", 0): 3,
    }
