"""Parses and checks the options of `coordinator_log`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from coordinator_pipeline.decode.decoder import VIEWS, Selection
from coordinator_pipeline.records_schema import RECORDS, select
from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.segments import DEFAULT_TOPIC

RANGES_VIEW: Final = "ranges"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
ISOLATIONS: Final = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options; exactly one of `path` and `bootstrap` is set."""

    path: Path | None = None
    """A data directory, of a coordinator-server or a broker."""
    bootstrap: str | None = None
    """Comma-separated `host:port`."""
    topic: str = DEFAULT_TOPIC
    schema: pa.Schema = RECORDS
    view: str = "all"
    starting: Mapping[int, int] | None = None
    """First offset by log partition; other partitions are read from their beginning."""
    ending: Mapping[int, int] | None = None
    """Offset to stop before, by log partition; batch queries only."""
    past_high_watermark: bool = False
    """Whether to read beyond the high watermarks in a broker's checkpoint file."""
    isolation: str = ISOLATIONS[0]
    """The isolation of Fetch; read_committed omits records of aborted transactions."""

    def selection(self, start: int, end: int | None) -> Selection:
        """Return the selection for a range of one partition."""
        return Selection(self.schema, self.view, start, end)


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse Spark's options; their names are case-insensitive.

    Raises:
        SourceError: an option is missing or has an invalid value.
    """
    options = {name.lower(): value for name, value in given.items()}
    path, bootstrap = options.get("path"), options.get("bootstrap")
    if bool(path) == bool(bootstrap):
        raise SourceError("expected one of the options path and bootstrap")
    try:
        schema = select(_names(options.get("columns")))
    except ValueError as error:
        raise SourceError(f"option columns: {error}") from None
    return Options(
        path=Path(path) if path else None,
        bootstrap=bootstrap or None,
        topic=options.get("topic", DEFAULT_TOPIC),
        schema=schema,
        view=_one_of(options, "view", (*VIEWS, RANGES_VIEW)),
        starting=_offsets(options, "startingOffsets", EARLIEST),
        ending=_offsets(options, "endingOffsets", LATEST),
        past_high_watermark=_one_of(options, "pastHighWatermark", ("false", "true")) == "true",
        isolation=_one_of(options, "isolation", ISOLATIONS),
    )


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def _one_of(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name.lower(), choices[0]).lower()
    if value not in choices:
        raise SourceError(f"option {name}: {value!r}, expected {' or '.join(choices)}")
    return value


def _offsets(options: Mapping[str, str], name: str, default: str) -> dict[int, int] | None:
    text = options.get(name.lower(), default)
    if text == default:
        return None
    try:
        found = {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        found = {-1: -1}
    if any(partition < 0 or offset < 0 for partition, offset in found.items()):
        expected = f'{default} or offsets by partition like {{"7": 1200}}'
        raise SourceError(f"option {name}: {text!r}, expected {expected}")
    return found
