"""How many groups there may be, whatever ids clients make up."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Rule
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable


async def test_a_group_too_many_is_refused_and_those_there_are_go_on() -> None:
    office = await Office(partitions=2, max_groups=3).open()
    await stable(office, "members", session=60_000)
    for number in range(2):
        assert office.group(f"simple-{number}").commit().is_parked
        await settle()
    for request in (
        office.group("one-more").commit(),
        office.group("one-more").member("a").join(),
    ):
        assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert request.rule is Rule.TOO_MANY_GROUPS
    assert office.dependencies.counters.refusals[Rule.TOO_MANY_GROUPS] == 2
    again = office.group("simple-0").commit()
    await settle()
    assert again.error is ErrorCode.NONE
    assert office.group("one-more").ask_offsets().error is ErrorCode.NONE
    assert office.dependencies.count.groups == 3


async def test_a_group_that_has_gone_makes_room() -> None:
    office = await Office(max_groups=1).open()
    office.group("first").commit()
    await settle()
    assert office.group("second").commit().rule is Rule.TOO_MANY_GROUPS
    office.group("first").delete()
    await settle()
    assert office.dependencies.count.groups == 0
    second = office.group("second").commit()
    await settle()
    assert second.error is ErrorCode.NONE


async def test_the_count_follows_a_partition_that_is_loaded_anew() -> None:
    office = await Office(max_groups=10).open()
    for number in range(4):
        office.group(f"group-{number}").commit()
    await settle()
    assert office.dependencies.count.groups == 4
    office.hold()
    office.group("lost").commit()
    await office.fail(OSError("disk"))
    assert office.dependencies.count.groups == 0
    await office.timers.advance(1_000)
    assert office.dependencies.count.groups == 4
