import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from coordinator_server.observe import exposition
from coordinator_server.observe.exposition import Exposition, family_text
from coordinator_server.observe.loop_lag import LoopLag


class Made(Collector):
    """Families with so many samples."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("size", 'with "quotes"\nand lines', labels=["id"])
        counter = CounterMetricFamily("done", "Counted.", labels=["id"])
        for number in range(self._samples):
            gauge.add_metric([f'"{number}"\n'], number)
            counter.add_metric([str(number)], number)
        yield gauge
        yield counter


def registry_of(samples: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Made(samples))
    return registry


@pytest.mark.parametrize("samples", [0, 1, 99, 100, 101, 1_234])
def test_a_family_in_pieces_is_what_prometheus_client_writes_at_once(samples: int) -> None:
    registry = registry_of(samples)
    families = list(registry.collect())
    text = "".join(piece for family in families for piece in family_text(family))
    assert text.encode() == generate_latest(registry)
    most = exposition.PIECE_SAMPLES + 2
    pieces = [piece for family in families for piece in family_text(family)]
    assert max(piece.count("\n") for piece in pieces) <= most


async def test_others_have_their_turn_while_a_scrape_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "SLICE_SECONDS", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    parts = await Exposition(registry_of(1_000)).scrape()
    beside.cancel()
    assert len(parts) == 20
    assert turns > 20
    assert b"".join(parts) == generate_latest(registry_of(1_000))


async def test_scrapes_wait_for_each_other_so_that_many_hold_up_no_more_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "SLICE_SECONDS", 0.0)
    under_way = most = 0

    def steps() -> Iterator[None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        yield
        yield
        under_way -= 1

    shared = Exposition(registry_of(1), steps)
    texts = await asyncio.gather(*(shared.scrape() for _ in range(5)))
    assert most == 1
    assert len({b"".join(text) for text in texts}) == 1


async def test_what_is_prepared_comes_before_and_single_groups_come_after() -> None:
    steps: list[str] = []

    def prepare() -> Iterator[None]:
        steps.append("prepared")
        yield

    def groups() -> Iterator[str]:
        steps.append("groups")
        yield "x 1\n"

    text = b"".join(await Exposition(registry_of(0), prepare, groups).scrape())
    assert steps == ["prepared", "groups"]
    assert text.endswith(b"# TYPE done_total counter\nx 1\n")


def test_the_longest_lag_is_told_once() -> None:
    lag = LoopLag()
    for late in (0.004, 0.2, -0.001):
        lag.took(late)
    assert lag.take_max() == 0.2
    assert lag.take_max() == 0.0
    assert dict(lag.seconds.buckets())["0.005"] == 2
    assert lag.seconds.total == pytest.approx(0.204)


async def test_a_loop_that_is_held_up_is_seen_and_none_is_after_the_stop() -> None:
    lag = LoopLag()
    lag.start()
    for _ in range(3):
        before = sum(lag.seconds.counts)
        while sum(lag.seconds.counts) == before:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
    lag.stop()
    lag.stop()
    rung = sum(lag.seconds.counts)
    await asyncio.sleep(0.05)
    assert sum(lag.seconds.counts) == rung >= 3
