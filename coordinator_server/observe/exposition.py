"""Generates the text of a scrape in slices, so that heartbeats do not wait for it.

prometheus_client formats the families of the process. The series of single groups have their own
formatter: prometheus_client takes ten times as long for 10,000 series, in a single slice.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

SLICE_SECONDS: Final = 0.002
"""Duration of a slice; a started piece is completed first."""

MAX_PAUSE_SECONDS: Final = 0.05
"""Longest pause after a slice; the pause is twice as long as the slice."""

PIECE_SAMPLES: Final = 100
"""Samples per piece, which take prometheus_client less than a millisecond."""

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


def _nothing() -> Iterator[None]:
    return iter(())


class Exposition:
    """Generates the response of `/metrics`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        prepare: Callable[[], Iterable[None]] = _nothing,
        groups: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Combine several sources.

        Args:
            registry: the families of the process.
            prepare: work before the collection, in small steps.
            groups: the text of the series of single groups, in small pieces.
        """
        self._registry = registry
        self._prepare = prepare
        self._groups = groups
        self._turn = asyncio.Lock()

    async def scrape(self) -> Sequence[bytes]:
        """The text, one part per slice; only one scrape runs at a time."""
        async with self._turn:
            slices: list[bytes] = []
            pieces: list[str] = []
            began = perf_counter()
            for piece in self._pieces():
                pieces.append(piece)
                if perf_counter() - began > SLICE_SECONDS:
                    slices.append("".join(pieces).encode())
                    pieces.clear()
                    # Slices take longer on a busy machine, and so do the pauses.
                    await asyncio.sleep(min(2 * (perf_counter() - began), MAX_PAUSE_SECONDS))
                    began = perf_counter()
            slices.append("".join(pieces).encode())
            return [part for part in slices if part]

    def _pieces(self) -> Iterator[str]:
        for _ in self._prepare():
            yield ""
        for family in self._registry.collect():
            yield from family_text(family)
        yield from self._groups()


class _SingleFamily(Collector):
    """A registry with one family, for generate_latest."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def family_text(family: Metric) -> Iterator[str]:
    """The lines of a family in pieces of samples; only the first has HELP and TYPE."""
    samples = family.samples
    for start in range(0, max(len(samples), 1), PIECE_SAMPLES):
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = samples[start : start + PIECE_SAMPLES]
        text = generate_latest(_SingleFamily(part)).decode()
        yield text if start == 0 else text.split("\n", 2)[2]
