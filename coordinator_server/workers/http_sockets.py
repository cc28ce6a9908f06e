"""The Unix sockets on which the workers serve HTTP for their supervisor."""

import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Final

from coordinator_server.config import Config

PREFIX: Final = "coordinator-http-"
YOUNG_SECONDS: Final = 60
"""A folder of this age may have sockets that are about to listen."""


def bind_http(undo: contextlib.ExitStack, config: Config) -> list[socket.socket]:
    """A socket for every worker's HTTP, which only this user can reach. Raises OSError."""
    if config.http_listener is None:
        return []
    remove_abandoned(time.time())
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    undo.callback(folder.rmdir)
    sockets = []
    for index in range(config.workers):
        each = socket.socket(socket.AF_UNIX)
        undo.callback(each.close)
        each.bind(str(folder / f"{index}.sock"))
        undo.callback((folder / f"{index}.sock").unlink, missing_ok=True)
        each.listen()
        sockets.append(each)
    return sockets


def remove_abandoned(wall_seconds: float) -> None:
    """Remove the folders of supervisors that were killed: on whose sockets nobody listens."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.getuid() or wall_seconds - status.st_mtime < YOUNG_SECONDS:
                continue
            paths = list(folder.glob("*.sock"))
            if not any(_is_listened_on(path) for path in paths):
                for path in paths:
                    path.unlink()
                folder.rmdir()


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
