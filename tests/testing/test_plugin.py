"""The plugin in a project of somebody else's: pytest is run in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import coordinator_server
from coordinator_server.cli.groups.kafka import KafkaProblem
from coordinator_server.config.sources import UNENFORCED
from coordinator_server.testing.external import ExternalCoordinator, NotOurs
from coordinator_server.testing.server import TestCoordinator

HERE = Path(coordinator_server.__file__).parent.parent

PROJECT = """
import socket
import pytest

def reach(address):
    host, port = address.split(":")
    socket.create_connection((host, int(port))).close()

def test_own(coordinator, session_coordinator):
    reach(coordinator.bootstrap)
    reach(session_coordinator.bootstrap)
    print("same" if coordinator is session_coordinator else "two")

def test_faults(session_coordinator):
    session_coordinator.hold("Heartbeat", times=7)

def test_session(session_coordinator):
    print("pending", session_coordinator.pending_faults)

@pytest.mark.coordinator({"group.min.session.timeout.ms": "10"})
def test_marker(coordinator):
    print(sorted(coordinator._settings.items()))
"""
SETTINGS = """
import pytest

@pytest.fixture(scope="session")
def coordinator_settings():
    return {"group.max.size": "2"}
"""


def run(folder: Path, *options: str, project: str = PROJECT) -> str:
    (folder / "conftest.py").write_text(SETTINGS)
    (folder / "test_client.py").write_text(project)
    plugin = ("-p", "coordinator_server.testing.plugin")
    ran = subprocess.run(
        (sys.executable, "-m", "pytest", *plugin, "-rA", "-p", "no:cacheprovider", *options),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_session_coordinator_is_one_for_all_tests_and_settings_are_theirs(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert "4 passed" in told
    assert "two" in told
    assert "pending 7" in told
    assert "('group.max.size', '2'), ('group.min.session.timeout.ms', '10')" in told


def test_broker_at_an_address_takes_the_place_of_both(
    tmp_path: Path, coordinator: TestCoordinator
) -> None:
    told = run(tmp_path, "--coordinator-address", coordinator.bootstrap)
    where = coordinator.bootstrap
    assert "2 failed, 1 passed, 1 error" in told
    assert "same" in told
    assert f"coordinator.hold: {where} is not ours (--coordinator-address)" in told
    assert f"--coordinator-address: {where} takes no settings from a marker" in told


OWN_PACKAGES = """
import pipeline
import protocol

def test_own_packages(coordinator):
    assert (pipeline.OWNER, protocol.OWNER) == ("this project", "this project")
    assert coordinator.bootstrap
"""


def test_project_may_have_packages_named_protocol_and_pipeline(tmp_path: Path) -> None:
    for name in ("pipeline", "protocol"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('OWNER = "this project"\n')
    assert "1 passed" in run(tmp_path, project=OWN_PACKAGES)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nowhere", "--coordinator-address: 'nowhere' is not an address, expected host:port"),
        ("127.0.0.1:1", "--coordinator-address: 127.0.0.1:1: Connection refused"),
    ],
)
def test_address_where_nobody_answers_is_told_in_one_line(
    tmp_path: Path, address: str, message: str
) -> None:
    told = run(tmp_path, "--coordinator-address", address, "-k", "own")
    assert f"\n{message}\n" in told
    assert "Traceback" not in told


NOT_A_DICT = (
    "@pytest.mark.coordinator: expected one dict of settings, such as "
    '@pytest.mark.coordinator({"group.max.size": "2"})'
)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        (
            '({"group.max.sise": "2"})',
            "group.max.sise (coordinator settings): no such property, did you mean group.max.size?",
        ),
        (
            '({"group.max.size": "many"})',
            "group.max.size=many (coordinator settings): expected an integer of at least 1",
        ),
        ('({"group.max.size": 2})', "group.max.size=2 (coordinator settings): expected a text"),
        (
            '({"authorizer.class.name": "a.B"})',
            "authorizer.class.name=a.B (coordinator settings): "
            + UNENFORCED["authorizer.class.name"],
        ),
        ("", NOT_A_DICT),
        ('("group.max.size=2")', NOT_A_DICT),
        ('({}, session="2")', NOT_A_DICT),
    ],
)
def test_marker_that_is_wrong_is_told_in_one_line(
    tmp_path: Path, marker: str, message: str
) -> None:
    test = f"@pytest.mark.coordinator{marker}\ndef test_it(coordinator):\n    pass\n"
    told = run(tmp_path, project="import pytest\n" + test)
    assert "1 error" in told
    assert f"\n{message}\n" in told
    assert "Traceback" not in told


def external(server: TestCoordinator) -> ExternalCoordinator:
    host, port = server.bootstrap.split(":")
    return ExternalCoordinator(host, int(port))


def test_topic_of_an_external_broker_is_made_once_and_taken_again(
    coordinator: TestCoordinator,
) -> None:
    broker = external(coordinator)
    broker.create_topic("orders", 2)
    broker.create_topic("orders", 2)
    with pytest.raises(KafkaProblem, match=r"'orders' is there already, with 2 .* expected 3"):
        broker.create_topic("orders", 3)
    with pytest.raises(KafkaProblem, match="CreateTopics of 'no/name': INVALID_TOPIC_EXCEPTION"):
        broker.create_topic("no/name")


def test_external_broker_has_nothing_that_needs_our_own(coordinator: TestCoordinator) -> None:
    broker = external(coordinator)
    assert (broker.is_external, coordinator.is_external) == (True, False)
    with pytest.raises(NotOurs, match=r"coordinator\.advance: 127"):
        broker.advance(1)
    with pytest.raises(NotOurs, match=r"coordinator\.rebalances: 127"):
        _ = broker.rebalances
    with pytest.raises(AttributeError, match="fly"):
        broker.fly()
