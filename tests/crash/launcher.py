"""A server that compacts whatever is dirty and dies where a file tells it to.

`python -m tests.crash.launcher ORDERS [--plant NAME] run ...`: ORDERS is the file; what follows is
the server's own command line. `--plant` puts a bug into it, which a crash test has to find.
"""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_server.cli.main import main
from coordinator_server.config import Config
from coordinator_server.server.component_settings import cleaner_settings
from coordinator_server.storage.segments.cleaner import CleanerSettings
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.storage.segments.swap import CLEANED, DELETED, SWAP
from tests.crash.crash_points import CrashPoint, install


def eager(settings: Callable[[Config], CleanerSettings]) -> Callable[[Config], CleanerSettings]:
    """Settings under which a few dirty bytes are enough."""
    return lambda config: dataclasses.replace(settings(config), min_dirty_bytes=1)


def forget_swaps(patch: pytest.MonkeyPatch) -> None:
    """A start that takes finished compactions for unfinished ones."""

    def forget(files: Files, directory: Path) -> None:
        for name in files.names(directory):
            if name.endswith((CLEANED, SWAP, DELETED)):
                files.remove(directory / name)

    patch.setattr("coordinator_server.storage.segments.log.complete_compaction", forget)


def cut_last(patch: pytest.MonkeyPatch) -> None:
    """A start that takes the last batch for torn."""
    recover = Segment.recover

    def cut(segment: Segment, *arguments: int, is_strict: bool = False) -> int:
        recovered = recover(segment, *arguments, is_strict=is_strict)
        *_, last = [0, *(position for position, *_ in segment.walk())]
        segment.truncate(last)
        return recovered

    patch.setattr(Segment, "recover", cut)


PLANTS = {"forget-swaps": forget_swaps, "cut-last": cut_last}


def run() -> None:
    """Plant, prepare and serve."""
    orders, *arguments = sys.argv[1:]
    patch = pytest.MonkeyPatch()
    if arguments[0] == "--plant":
        PLANTS[arguments[1]](patch)
        arguments = arguments[2:]
    patch.setattr("coordinator_server.app.cleaner_settings", eager(cleaner_settings))
    install(SYSTEM_FILES, CrashPoint(Path(orders)))
    sys.argv = ["coordinator-server", *arguments]
    main()


if __name__ == "__main__":
    run()
