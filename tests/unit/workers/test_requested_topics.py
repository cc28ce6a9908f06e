"""Topics that workers wish for while the first worker, which makes them, is not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_server.config import load
from coordinator_server.workers import supervisor as module
from coordinator_server.workers.channel import Form
from coordinator_server.workers.supervisor import Supervisor


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """One that has begun no worker yet."""
    flags = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "http.listener": "",
        "workers": "2",
    }
    made = Supervisor(load(environ={}, flags=flags).config)
    yield made
    made._held.close()


def sent_to_the_first(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    sent: list[Form] = []
    monkeypatch.setattr(supervisor.workers[0], "send", sent.append)
    return sent


def wish(supervisor: Supervisor, *topics: list[object]) -> None:
    supervisor._hear(supervisor.workers[1], {"kind": "create", "topics": topics})


def test_what_is_wished_for_again_and_again_is_kept_and_sent_once(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = sent_to_the_first(supervisor, monkeypatch)
    for _ in range(1_000):
        wish(supervisor, ["orders", 3])
    wish(supervisor, ["payments", 1], ["orders", 3])
    assert (sent, len(supervisor._wishes)) == ([], 2)
    supervisor._hear(supervisor.workers[0], {"kind": "ready"})
    assert sent == [{"kind": "create", "topics": [("orders", 3), ("payments", 1)]}]
    supervisor._hear(supervisor.workers[0], {"kind": "ready"})
    assert len(sent) == 1


def test_no_more_is_wished_for_than_the_limit(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WISHES", 2)
    wish(supervisor, ["a", 1], ["b", 1], ["c", 1])
    assert [*supervisor._wishes] == ["a", "b"]
