"""A supervisor, or one of its workers, with the modules of `workers` rewritten.

`python -m tests.chaos.worker_launcher SCRATCH run ...` is the supervisor; it starts its workers as
`python -m tests.chaos.worker_launcher SCRATCH child FD PID`. SCRATCH is a directory: `arm` in it
has the role, a point and an exception; `struck` is made when it was raised, which is done once;
`hits-ROLE-PID` lists the points that a process has passed, when it ends.
"""

import asyncio
import atexit
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.injector import EXCEPTIONS
from tests.chaos.rewrite import Points, install

REWRITTEN = ("coordinator_server.workers", "coordinator_server.loop.task_keeper")
SUPERVISOR, CHILD = "supervisor", "child"


class Script:
    """The one exception that is raised, in one of the processes."""

    def __init__(self, scratch: Path, role: str) -> None:
        self.points = Points()
        self._scratch = scratch
        self._role = role
        self._hits: set[int] = set()
        self._point, self._make = self._read()

    def _read(self) -> tuple[str, Callable[[], BaseException] | None]:
        try:
            role, point, exception = (self._scratch / "arm").read_text().split()
        except FileNotFoundError:
            return "", None
        return (point, EXCEPTIONS[exception]) if role == self._role else ("", None)

    def strike(self, number: int) -> None:
        """Raise what is armed, once in all processes."""
        self._hits.add(number)
        if self._make is None or self.points.names[number] != self._point:
            return
        make, self._make = self._make, None
        try:
            os.close(os.open(self._scratch / "struck", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
        raise make()

    def strike_after(self, number: int, value: Any) -> Any:
        """The same, once there is a value."""
        self.strike(number)
        return value

    def save(self) -> None:
        """List what was passed."""
        names = sorted(self.points.names[number] for number in self._hits)
        (self._scratch / f"hits-{self._role}-{os.getpid()}").write_text(json.dumps(names))


def main() -> None:
    """Be what the arguments say."""
    scratch, kind, *rest = sys.argv[1:]
    role = CHILD if kind == "child" else SUPERVISOR
    script = Script(Path(scratch), role)
    install(script.points, script.strike, script.strike_after, REWRITTEN)
    atexit.register(script.save)
    if role == CHILD:
        from coordinator_server.workers import child

        sys.argv = ["child", *rest]
        sys.exit(child.main())
    from coordinator_server.cli.main import main as run

    spawn = asyncio.create_subprocess_exec

    async def spawn_rewritten(*command: str, **how: Any) -> asyncio.subprocess.Process:
        *_, descriptor, pid = command
        module = ("-m", "tests.chaos.worker_launcher", scratch, "child")
        return await spawn(sys.executable, *module, descriptor, pid, **how)

    pytest.MonkeyPatch().setattr(asyncio, "create_subprocess_exec", spawn_rewritten)
    sys.argv = ["coordinator-server", kind, *rest]
    run()


if __name__ == "__main__":
    main()
