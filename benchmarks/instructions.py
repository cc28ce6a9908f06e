"""Count the machine instructions of a request inside the compiled server: no noise, no clock.

`python -m benchmarks.instructions [WORK ...]` after `make compiled`, with valgrind installed. The
whole server is there; what is missing is the network. Every instruction is counted for the
innermost function of ours that brought it about, so a lookup or a deallocation in Python's runtime
counts for who asked for it.
"""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.choice import chosen
from benchmarks.servers import COMPILED, COMPILED_MADE, ROOT
from benchmarks.tables import table
from benchmarks.turn import (
    CLIENTS,
    CREATE,
    MEMBERS,
    REBALANCE,
    SHARED,
    WORKS,
    Client,
    Costs,
    create,
    frame,
    gathered,
    rebalance,
    serving,
)
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.api_versions import ApiVersionsRequest
from coordinator_protocol.messages.find_coordinator import FindCoordinatorRequest
from coordinator_server.api.registry import import_all
from coordinator_server.app import App
from coordinator_server.clock import ManualClock
from coordinator_server.net.connection import Connection, ServerState
from coordinator_server.net.fair_scheduler import FairScheduler
from coordinator_server.observe import log
from coordinator_server.server.run import freeze_heap

CONNECT: Final = "connection with ApiVersions and FindCoordinator"
WARM_UP_ROUNDS: Final = 50
CALLERS: Final = 14
"""How far up callgrind tells who called; calls through the runtime are a few levels deep."""
OUTSIDE: Final = "the event loop"
"""What is done outside of every function of ours."""
COUNTED: Final = (*(name for name in WORKS if name != SHARED), CONNECT, CREATE, REBALANCE)
"""Works of clients with a connection of their own each."""

_OURS: Final = "CPyDef_"
"""What mypyc puts before the name of a function."""


# --- inside callgrind ---


class Wire:
    """Stands for the transport of a connection whose client waits for every answer."""

    def __init__(self) -> None:
        self.answered = 0
        self.arrived: asyncio.Future[None] | None = None

    def fileno(self) -> int:
        """The number of its socket."""
        return 0

    def write(self, _data: bytes) -> None:
        """An answer leaves."""
        self.answered += 1
        if self.arrived is not None and not self.arrived.done():
            self.arrived.set_result(None)

    def get_extra_info(self, name: str) -> Any:
        """The other end, or what stands for the socket."""
        return self if name == "socket" else ("127.0.0.1", 1)


async def serve(name: str, rounds: int) -> None:
    """Do a work for a while, and have the instructions of many rounds counted."""
    async with serving() as app:
        import_all()  # the server does it by itself, after a while
        if name == CREATE:
            await _create(app, rounds)
        elif name == REBALANCE:
            await _rebalance(app, rounds)
        elif name == CONNECT:
            await _connect(app, rounds)
        else:
            await _request(app, name, rounds)


async def _create(app: App, rounds: int) -> None:
    clients, spent = [Client(app, number) for number in range(CLIENTS)], Costs()
    for number in range(WARM_UP_ROUNDS):
        await create(clients, CLIENTS * number, spent)
    with _counted():
        for number in range(WARM_UP_ROUNDS, WARM_UP_ROUNDS + rounds):
            await create(clients, CLIENTS * number, spent)


async def _rebalance(app: App, rounds: int) -> None:
    members = await gathered(app, MEMBERS)
    with _counted():
        for _ in range(_rebalances_in(rounds)):
            await rebalance(members, Costs())


def _rebalances_in(rounds: int) -> int:
    return 1 + rounds // 100


async def _connect(app: App, rounds: int) -> None:
    """Connections that ask as every client begins; accepting and closing sockets is not counted."""
    versions = ApiVersionsRequest("benchmark", "1")
    coordinator = FindCoordinatorRequest(coordinator_keys=["group"])
    chunks = [
        frame(ApiKey.API_VERSIONS, 3, versions),
        frame(ApiKey.FIND_COORDINATOR, 4, coordinator),
    ]
    hub = _hub(app)
    _come_and_go(hub, chunks, WARM_UP_ROUNDS)
    with _counted():
        _come_and_go(hub, chunks, CLIENTS * rounds)


def _come_and_go(hub: ServerState, chunks: list[bytes], times: int) -> None:
    for _ in range(times):
        wire, end = Wire(), Connection(hub, "PLAINTEXT")
        end.connection_made(wire)  # type: ignore[arg-type]
        for chunk in chunks:
            end.data_received(chunk)
        end.connection_lost(None)
        if wire.answered != len(chunks):
            raise RuntimeError("not every request was answered")


async def _request(app: App, name: str, rounds: int) -> None:
    """The same request again and again, through all but the socket."""
    make, _ = WORKS[name]
    hub = _hub(app)
    clients = [Client(app, number) for number in range(CLIENTS)]
    for client in clients:
        await client.join()
    chunks = [make(client) for client in clients]
    wires = [Wire() for _ in clients]
    ends = []
    for wire in wires:
        ends.append(Connection(hub, "PLAINTEXT"))
        ends[-1].connection_made(wire)  # type: ignore[arg-type]
    await _rounds(WARM_UP_ROUNDS, ends, wires, chunks)
    await asyncio.sleep(1)
    with _counted():
        await _rounds(rounds, ends, wires, chunks)
    if any(wire.answered != WARM_UP_ROUNDS + rounds for wire in wires):
        raise RuntimeError("not every request was answered")
    for end in ends:
        end.connection_lost(None)


def _hub(app: App) -> ServerState:
    """What connections share, of a clock that stands still.

    Under callgrind all takes fifty times as long: a turn of the loop would be over at once.
    """
    hub: ServerState = app.server._hub  # noqa: SLF001 - nobody else needs it
    hub.clock = ManualClock(time.monotonic_ns() // 1_000_000)
    hub.turns = FairScheduler(app._soon, hub.clock)  # noqa: SLF001
    return hub


async def _rounds(
    rounds: int, ends: list[Connection], wires: list[Wire], chunks: list[bytes]
) -> None:
    """Every client asks once and waits for its answer, again and again."""
    loop = asyncio.get_running_loop()
    for _ in range(rounds):
        wires[-1].arrived = arrived = loop.create_future()
        for end, chunk in zip(ends, chunks, strict=True):
            end.data_received(chunk)
        await arrived


@contextmanager
def _counted() -> Iterator[None]:
    """Have the instructions counted meanwhile, with the collector set as the server sets it."""
    freeze_heap()
    _count("on")
    yield
    _count("off")


def _count(switch: str) -> None:
    command = ["callgrind_control", "-i", switch, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# --- outside ---


def measured(name: str, rounds: int) -> Counter[str]:
    """Instructions of all requests of a work, by our innermost function."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        found = Path(directory) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "-q"]
        command += [f"--separate-callers={CALLERS}", f"--callgrind-out-file={found}"]
        command += [sys.executable, "-m", "benchmarks.instructions", "--inside", name]
        paths = {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{COMPILED}:{ROOT}:{ROOT}/protocol"}
        subprocess.run(
            [*command, f"--rounds={rounds}"], cwd=ROOT, env={**os.environ, **paths}, check=True
        )
        with found.open() as lines:
            return attributed(lines)


def attributed(lines: Iterable[str]) -> Counter[str]:
    """What a callgrind file says, by our innermost function."""
    names: dict[str, str] = {}
    spent: Counter[str] = Counter()
    function, is_call = "", False
    for line in lines:
        if named := re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line):
            number, name = named.groups()
            if name is not None:
                names[number] = _our_function(name)
            if line.startswith("fn="):
                function = names[number]
        elif line.startswith("calls="):
            is_call = True
        elif line[:1] in "0123456789+-*" and line.strip():
            if not is_call:
                spent[function] += int(line.split()[1])
            # What a call cost is what its callee has spent.
            is_call = False
    return spent


def _our_function(chain: str) -> str:
    """The innermost of ours in a name with its callers, as in `malloc'list_append'CPyDef_f`."""
    ours = (name for name in chain.split("'") if name.startswith(_OURS))
    return next(ours, OUTSIDE).removeprefix(_OURS).replace("___", ".").strip("_")


def operations(name: str, rounds: int) -> int:
    """How many requests, or groups, are in so many rounds."""
    if name in (CONNECT, CREATE):
        return CLIENTS * rounds
    if name == REBALANCE:
        return 2 * MEMBERS * _rebalances_in(rounds)
    return CLIENTS * rounds * WORKS[name][1]


def rows_of(spent: Counter[str], count: int, top: int) -> Iterator[tuple[str, str]]:
    """All together, and the most expensive functions."""
    yield "all", f"{spent.total() / count:,.0f}"
    for name, instructions in spent.most_common(top):
        yield name, f"{instructions / count:,.0f}"


def parsed() -> argparse.Namespace:
    """The command line, which names works there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", metavar="WORK", help="part of a name; default: all")
    parser.add_argument("--rounds", type=int, default=200, help="requests of each of 16 clients")
    parser.add_argument("--top", type=int, default=12, help="functions to be named")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.works = chosen(parser, COUNTED, arguments.works)
    return arguments


def main() -> int:
    """Print a table for each work."""
    arguments = parsed()
    if arguments.inside:
        log.configure(line_format="json", fd=os.open(os.devnull, os.O_WRONLY))
        uvloop.run(serve(arguments.works[0], arguments.rounds))
        return 0
    if shutil.which("valgrind") is None or not COMPILED_MADE.exists():
        print("nothing counted: it takes valgrind in PATH and `make compiled`", file=sys.stderr)
        return 1
    for name in arguments.works:
        spent = measured(name, arguments.rounds)
        if name in (CREATE, REBALANCE):
            del spent[OUTSIDE]  # which is mostly the clients, who are in the process
        rows = rows_of(spent, operations(name, arguments.rounds), arguments.top)
        print(table((name, "instructions"), rows, texts=1), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
