"""The server is stopped for longer than a session (SIGSTOP, as `docker pause` does)."""

import threading
import time
from pathlib import Path

import pytest

from tests.support.server import ServerProcess
from tests.support.wire import RawConnection, unique

SESSION_MS = 2_000
PAUSE_SECONDS = 5.0
MEMBERS = 20


class Beating(threading.Thread):
    """A member with a group of its own, which heartbeats until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.errors: list[str] = []
        self.heard = 0
        self.stopping = threading.Event()
        self._connection = RawConnection(bootstrap, timeout=30.0)
        self._who = {"group_id": unique("paused"), "member_id": "", "group_instance_id": None}

    def join_group(self) -> None:
        """Become the only member, before the heartbeats begin."""
        joining = {
            "session_timeout": SESSION_MS,
            "rebalance_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        for _ in range(100):
            joined = self._connection.call("JoinGroup", 5, **self._who, **joining)
            self._who["member_id"] = joined["member_id"]
            if joined["error_code"] == "NONE":
                break
            if joined["error_code"] != "MEMBER_ID_REQUIRED":
                time.sleep(0.1)  # the partition is being loaded
        assert joined["error_code"] == "NONE", joined
        self._who["generation_id"] = joined["generation_id"]
        assigned = [{"member_id": joined["member_id"], "assignment": b""}]
        synced = self._connection.call("SyncGroup", 3, **self._who, assignments=assigned)
        assert synced["error_code"] == "NONE", synced

    def run(self) -> None:
        """Send one heartbeat after the other, as clients do."""
        with self._connection:
            while not self.stopping.wait(SESSION_MS / 1000 / 4):
                answer = self._connection.call("Heartbeat", 3, **self._who)
                self.heard += 1
                if answer["error_code"] != "NONE":
                    self.errors.append(answer["error_code"])


@pytest.mark.slow
def test_nobody_is_evicted_by_a_pause_that_is_longer_than_a_session(tmp_path: Path) -> None:
    settings = {"group.min.session.timeout.ms": str(SESSION_MS)}
    with ServerProcess(tmp_path / "server", settings) as server:
        members = [Beating(server.bootstrap) for _ in range(MEMBERS)]
        for member in members:
            member.join_group()
            member.start()
        time.sleep(1.0)
        for _ in range(2):
            server.pause()
            time.sleep(PAUSE_SECONDS)
            server.resume()
            heard = [member.heard for member in members]
            time.sleep(SESSION_MS / 1000)
            assert all(m.heard > before for m, before in zip(members, heard, strict=True))
        for member in members:
            member.stopping.set()
        for member in members:
            member.join(30.0)
        assert [member.errors for member in members] == [[]] * MEMBERS
        assert "process_pause_found" in server.log_text()
        assert "session_expired" not in server.log_text()
        assert not server.bugs()
