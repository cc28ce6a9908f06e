"""Starts servers whose modules were rewritten, one after the other, from one process.

`python -m tests.chaos.launcher SOCKET`: every line of the standard input is a JSON object with the
command line, the log file and the points to arm; each server is forked from here, so that the
modules are rewritten once. A server connects to SOCKET, which arms points and counts hits.
"""

import atexit
import contextlib
import ctypes
import dataclasses
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

from tests.chaos.injector import Armed, Injector
from tests.chaos.rewrite import PACKAGE, Points, install

_PR_SET_PDEATHSIG = 1


class Control:
    """Receives commands of the harness in a separate thread of the server."""

    def __init__(self) -> None:
        self.points = Points()
        self.injector = Injector(self.points, self._struck)
        self._socket: socket.socket | None = None

    def connect(self, path: str) -> None:
        """Connect, and obey."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        threading.Thread(target=self._obey, name="chaos", daemon=True).start()

    def _obey(self) -> None:
        assert self._socket is not None
        with self._socket.makefile("r") as orders:
            for line in orders:
                self.say(**self.answer(json.loads(line)))
        # Nobody is left to stop this server.
        os.kill(os.getpid(), signal.SIGKILL)

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a command and return its result."""
        match order["do"]:
            case "arm":
                self.arm(order["points"])
                return {"armed": True}
            case "disarm":
                self.injector.armed.clear()
                return {"disarmed": True}
            case "hits":
                return {"hits": self.hits()}
            case "record":
                self.injector.is_recording = True
                return {"recording": True}
            case "kinds":
                return {"kinds": self.kinds()}
        return {"unknown": order}

    def arm(self, points: list[list[Any]]) -> None:
        """Arm points: name, exception, how often, and after how many hits."""
        for name, exception, times, skip in points:
            self.injector.armed[self.points.numbers[name]] = Armed(exception, times, skip)

    def hits(self) -> dict[str, int]:
        """How often each point was passed."""
        return {self.points.names[number]: n for number, n in dict(self.injector.hits).items()}

    def kinds(self) -> dict[str, list[str]]:
        """The kind of each point."""
        names, kinds = self.points.names, {n: set(k) for n, k in self.injector.kinds.items()}
        for number in self.points.silent & kinds.keys():
            del kinds[number]
        for number in self.points.ports():
            kinds.setdefault(number, set()).add("port")
        for number, is_entry in enumerate(self.points.is_entry):
            if not is_entry:
                kinds.setdefault(number, set()).add("await")
        return {names[number]: sorted(each) for number, each in kinds.items()}

    def _struck(self, name: str) -> None:
        self.say(struck=name)

    def say(self, **words: Any) -> None:
        """Send a line to the harness."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendall(json.dumps(words).encode() + b"\n")


def prepare() -> None:
    """Import everything that a server imports, and have it compact eagerly."""
    for module in (
        "cli.main",
        "observe.http",
        "server.http_setup",
        "server.metrics_setup",
        "server.run",
        "workers.supervisor",
    ):
        import_module(f"{PACKAGE}.{module}")
    from coordinator_server.api.registry import import_all
    from coordinator_server.server import component_settings

    import_all()
    patch = pytest.MonkeyPatch()
    given = component_settings.cleaner_settings
    patch.setattr(
        "coordinator_server.app.cleaner_settings",
        lambda config: dataclasses.replace(given(config), min_dirty_bytes=1),
    )


def serve(control: Control, order: Mapping[str, Any], path: str) -> None:
    """Be a server; never returns."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    control.injector.is_recording = order["record"]
    if order["plant"]:
        PLANTS[order["plant"]]()
    control.connect(path)
    control.arm(order["points"])
    sys.argv = ["coordinator-server", *order["arguments"]]
    from coordinator_server.cli.main import main

    def last_words() -> None:
        control.say(hits=control.hits(), kinds=control.kinds() if order["record"] else {})

    leave = os._exit

    def leave_at_once(code: int) -> None:
        last_words()
        leave(code)

    # The server ends like this where it has nothing more to lose.
    pytest.MonkeyPatch().setattr(os, "_exit", leave_at_once)
    code: Any = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
    last_words()
    # What the interpreter does at its end: a thread that never ends must be seen.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stderr.flush()
    leave(code if isinstance(code, int) else 1)


def silent_failures() -> None:
    """Plant a bug: a request whose handling fails is not answered."""
    from coordinator_server.net.session import Session

    pytest.MonkeyPatch().setattr(Session, "failed", lambda *_: None)


def cut_last() -> None:
    """Plant a bug: a start takes the last batch of every log for torn."""
    from tests.crash import launcher

    launcher.cut_last(pytest.MonkeyPatch())


PLANTS = {"silent-failures": silent_failures, "cut-last": cut_last}


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Fork a server for each request until the harness ends."""
    die_with_parent()
    path = sys.argv[1]
    control = Control()
    install(control.points, control.injector.strike, control.injector.strike_after)
    prepare()
    _say(ready=len(control.points.names))
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            serve(control, json.loads(line), path)
        _say(pid=pid)
        _, status = os.waitpid(pid, 0)
        _say(ended=os.waitstatus_to_exitcode(status))


def _say(**words: int) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
