"""What is put off until the next turn of the loop."""

import asyncio

from coordinator_server.loop.batching import STEPS, SoonInLoop


async def test_what_was_put_off_comes_in_its_order_in_the_next_turn() -> None:
    soon, done = SoonInLoop(), list[int]()
    for number in range(3):
        soon(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    await asyncio.sleep(0)
    assert done == [0, 1, 2]
    soon(lambda: done.append(3))
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3]


async def test_some_steps_follow_one_another_in_one_turn_and_the_rest_waits() -> None:
    soon, steps = SoonInLoop(), 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps < 2 * STEPS + 1:
            soon(step)

    soon(step)
    for done in (STEPS, 2 * STEPS, 2 * STEPS + 1):
        await asyncio.sleep(0)
        assert steps == done


async def test_a_bug_is_reported_and_keeps_nobody_from_his_turn() -> None:
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    soon, done = SoonInLoop(), list[int]()
    bug = ZeroDivisionError()

    def fail() -> None:
        raise bug

    soon(fail)
    soon(lambda: done.append(1))
    await asyncio.sleep(0)
    assert (reported, done) == ([bug], [1])
