"""A supervisor with its workers as real processes, on ports the system chooses."""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator_protocol.java import partition_for
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection, unique

PARTITIONS = 50


class WorkersProcess(ServerProcess):
    """Addresses are other ones after a restart; a worker that is started again keeps its own."""

    def __init__(
        self, directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        given = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "workers": str(count),
            "topics": "t:6",
            **(settings or {}),
        }
        super().__init__(directory, given)
        self.bootstraps: list[str] = []

    @property
    def count(self) -> int:
        """How many workers there are."""
        return int(self._settings["workers"])

    def resize(self, count: int) -> None:
        """Start with another number of workers from now on."""
        self._settings["workers"] = str(count)

    def start(self, within: float = 60.0) -> None:
        """Start all and wait until every partition is served."""
        self._seen = len(self.log_text())
        super().start(within)

    def _wait_until_it_answers(self, within: float) -> None:
        until = time.monotonic() + within
        self.bootstraps = self._addresses(until)
        self.bootstrap = self.bootstraps[0]
        self.await_ready(until - time.monotonic())

    def _addresses(self, until: float) -> list[str]:
        """What the supervisor says, or the one server there is."""
        while time.monotonic() < until:
            for line in self.log_text()[self._seen :].splitlines():
                if '"supervisor_started"' in line:
                    return [str(each) for each in json.loads(line)["listeners"]["PLAINTEXT"]]
                if '"server_started"' in line and self.count == 1:
                    return [str(json.loads(line)["listeners"]["PLAINTEXT"])]
            self._running()
            time.sleep(0.02)
        raise TimeoutError("no line with the addresses")

    def ready(self) -> Mapping[str, Any] | None:
        """What /readyz says once all are ready, None before."""
        try:
            form: Mapping[str, Any] = json.loads(self.get("/readyz"))
        except OSError:
            return None
        return form

    def await_ready(self, within: float = 30.0) -> None:
        """Wait until every worker serves all its partitions; raises TimeoutError."""
        until = time.monotonic() + within
        while self.ready() is None:
            self._running()
            if time.monotonic() > until:
                raise TimeoutError(f"not ready\n{self.log_tail()}")
            time.sleep(0.02)

    # --- workers ---

    def pid_of(self, index: int) -> int:
        """The process of a worker, as the supervisor has said last."""
        for line in reversed(self.log_text().splitlines()):
            form = json.loads(line) if '"worker_started"' in line else {}
            if form.get("worker") == index:
                return int(form["pid"])
        raise AssertionError(f"worker {index} was not started\n{self.log_tail()}")

    def kill_worker(self, index: int) -> None:
        """Kill -9 of one worker, and wait until the supervisor has noticed."""
        noticed = self.log_text().count('"worker_ended"')
        os.kill(self.pid_of(index), signal.SIGKILL)
        until = time.monotonic() + 10
        while self.log_text().count('"worker_ended"') == noticed:
            assert time.monotonic() < until, self.log_tail()
            time.sleep(0.01)

    # --- groups ---

    def owner_of(self, group: str) -> int:
        """The worker of a group."""
        return partition_for(group, PARTITIONS) % self.count

    def group_of(self, index: int, name: str = "group") -> str:
        """A new group that belongs to a worker."""
        while True:
            group = unique(name)
            if self.owner_of(group) == index:
                return group

    def worker(self, index: int) -> RawConnection:
        """A connection to a worker."""
        return RawConnection(self.bootstraps[index])

    def coordinator_of(self, group: str) -> str:
        """Where FindCoordinator says that the group is."""
        with self.worker(0) as asked:
            reply = asked.call("FindCoordinator", 2, key=group, key_type=0)
        assert reply["error_code"] == "NONE", reply
        return f"{reply['host']}:{reply['port']}"


def commit(connection: RawConnection, group: str, topic: str, offset: int = 7) -> str:
    """Commit an offset of partition 0; Kafka's name of the error."""
    place = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    reply = connection.call(
        "OffsetCommit",
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [place]}],
    )
    return str(reply["topics"][0]["partitions"][0]["error_code"])
