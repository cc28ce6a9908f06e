"""The text of a scrape, made in slices so that no heartbeat waits long for it.

The families of the process come from prometheus_client, those of single groups are written by hand:
10,000 series take prometheus_client ten times as long, and nobody has a turn meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

SLICE_SECONDS: Final = 0.002
"""After how much work others get their turn; a piece that is begun is ended first."""

MOST_PAUSE_SECONDS: Final = 0.05
"""They have the loop for twice as long as the slice took, but no longer than this."""

SAMPLES_AT_ONCE: Final = 100
"""Samples of one piece; they take prometheus_client less than a millisecond."""

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


def _nothing() -> Iterator[None]:
    return iter(())


class Exposition:
    """Makes what `/metrics` answers."""

    def __init__(
        self,
        registry: CollectorRegistry,
        prepare: Callable[[], Iterable[None]] = _nothing,
        groups: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Make it of several parts.

        Args:
            registry: the families of the process.
            prepare: work to be done before they are collected, in small steps.
            groups: the text of the series of single groups, in small pieces.
        """
        self._registry = registry
        self._prepare = prepare
        self._groups = groups
        self._turn = asyncio.Lock()

    async def scrape(self) -> Sequence[bytes]:
        """The whole text, in as many parts as slices were needed; one scrape at a time."""
        async with self._turn:
            slices: list[bytes] = []
            pieces: list[str] = []
            began = perf_counter()
            for piece in self._pieces():
                pieces.append(piece)
                if perf_counter() - began > SLICE_SECONDS:
                    slices.append("".join(pieces).encode())
                    pieces.clear()
                    # On a busy machine slices take long, and others need their time all the more.
                    await asyncio.sleep(min(2 * (perf_counter() - began), MOST_PAUSE_SECONDS))
                    began = perf_counter()
            slices.append("".join(pieces).encode())
            return [part for part in slices if part]

    def _pieces(self) -> Iterator[str]:
        for _ in self._prepare():
            yield ""
        for family in self._registry.collect():
            yield from family_text(family)
        yield from self._groups()


class _One(Collector):
    """What prometheus_client takes for a registry, with one family in it."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def family_text(family: Metric) -> Iterator[str]:
    """The lines of a family, a hundred samples at a time; its head is there once."""
    samples = family.samples
    for start in range(0, max(len(samples), 1), SAMPLES_AT_ONCE):
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = samples[start : start + SAMPLES_AT_ONCE]
        text = generate_latest(_One(part)).decode()
        yield text if start == 0 else text.split("\n", 2)[2]
