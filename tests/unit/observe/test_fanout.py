import asyncio
from collections.abc import Callable
from typing import Never

import pytest

from coordinator_server.group.rebalance_events import Observation, RebalanceEvent
from coordinator_server.observe.fanout import Fanout, Observer


def _broken(observation: Observation) -> Never:
    raise RuntimeError("broken")


def _cancelled(observation: Observation) -> Never:
    raise asyncio.CancelledError("cancelled")


def test_everyone_hears_of_an_event_though_one_observer_is_broken(
    make_event: Callable[..., RebalanceEvent],
) -> None:
    heard: list[Observation] = []
    failed: list[tuple[Observer, str]] = []
    fanout = Fanout(
        [_broken, _cancelled, heard.append],
        lambda observer, error: failed.append((observer, str(error))),
    )
    event = make_event()
    fanout.publish(event)
    assert heard == [event]
    assert failed == [(_broken, "broken"), (_cancelled, "cancelled")]


def test_it_never_raises_though_nobody_takes_the_failure(
    make_event: Callable[..., RebalanceEvent],
) -> None:
    told: list[str] = []

    def fail(observer: Observer, error: BaseException) -> None:
        told.append(str(error))
        raise error

    Fanout([_broken], fail).publish(make_event())
    assert told == ["broken"]


def test_it_does_not_hide_that_the_process_is_told_to_end(
    make_event: Callable[..., RebalanceEvent],
) -> None:
    def interrupted(observation: Observation) -> Never:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Fanout([interrupted], lambda *_: None).publish(make_event())
