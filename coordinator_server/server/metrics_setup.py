"""Makes the collectors of `/metrics`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server import __version__
from coordinator_server.config import Config
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.exposition import Exposition
from coordinator_server.observe.flapping import Flapping
from coordinator_server.observe.group_series import (
    GroupChoice,
    GroupSeries,
    GroupTallies,
    TopicSource,
)
from coordinator_server.observe.loop_lag import LoopLag
from coordinator_server.observe.metrics import (
    CoordinatorCollector,
    JmxCollector,
    Names,
    make_registry,
)
from coordinator_server.observe.status import StatusSource
from coordinator_server.observe.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Figures:
    """The sources of the metrics."""

    counters: Counters
    status: StatusSource
    timeline: Timeline
    wall_ms: Callable[[], int]
    log_sizes: Callable[[], Mapping[int, tuple[int, int]]]
    cleaner_lag: Callable[[], tuple[float, float]]
    loop_lag: LoopLag
    flapping: Flapping
    choice: GroupChoice
    tallies: GroupTallies
    topics: TopicSource


def make_exposition(config: Config, figures: Figures) -> Exposition:
    """The exposition of the metrics that the settings enable."""
    own = CoordinatorCollector(
        figures.counters,
        figures.status,
        figures.timeline,
        figures.wall_ms,
        Names({key: _camel(key.name) for key in ApiKey}, {e: e.name for e in ErrorCode}),
        __version__,
        figures.log_sizes,
        figures.cleaner_lag,
        figures.loop_lag,
        figures.flapping.each,
    )
    jmx = [JmxCollector(figures.counters, figures.status, own)]
    registry = make_registry(own, *(jmx if "jmx" in config.metrics_aliases else ()))
    choice = figures.choice
    if choice.allow is None:
        return Exposition(registry, own.prepare)
    series = GroupSeries(figures.status, choice, figures.tallies, figures.topics)
    return Exposition(registry, own.prepare, series.pieces)


def _camel(name: str) -> str:
    """Convert JOIN_GROUP to JoinGroup."""
    return "".join(part.capitalize() for part in name.split("_"))
