"""Fixtures of the tests with real clients: a server process, rooms of clients, sarama."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.support.client_processes import ClientGroup, OpenClientGroup, client_group
from tests.support.member_commands import SaramaMembers, sarama_members_of
from tests.support.server import EXTERNAL, ServerProcess, wait_until_it_answers
from tests.support.wire import create_topic, unique

SARAMA = Path(__file__).parent / "sarama"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.clients)


def unavailable(what: str) -> None:
    """Skip, or fail where everything has to run."""
    if os.environ.get("COORDINATOR_CI") == "1":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def shared_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that all tests of this process share."""
    external = os.environ.get(EXTERNAL)
    if external:
        wait_until_it_answers(external, 10.0)
        yield external
        return
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server.bootstrap
        assert server.running, server.log_tail()
        assert not server.bugs(), server.bugs()[:5]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server the test may kill."""
    if os.environ.get(EXTERNAL):
        pytest.skip(f"{EXTERNAL} is set: only a server of our own can be killed")
    with ServerProcess(tmp_path / "server") as server:
        yield server
        assert not server.bugs(), server.bugs()[:5]


@pytest.fixture
def open_client_group(tmp_path: Path) -> Iterator[OpenClientGroup]:
    """Makes a new topic of four partitions on a server, and a room of clients round it."""
    with ExitStack() as client_groups:

        def opened(bootstrap: str) -> ClientGroup:
            topic, group = unique("records"), unique("group")
            create_topic(bootstrap, topic, 4)
            return client_groups.enter_context(client_group(bootstrap, group, topic, tmp_path))

        yield opened


@pytest.fixture
def shared_client_group(shared_bootstrap: str, open_client_group: OpenClientGroup) -> ClientGroup:
    """A room on the shared server."""
    return open_client_group(shared_bootstrap)


def run_go(go: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Go in the module of the sarama program."""
    return subprocess.run([go, *arguments], cwd=SARAMA, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def sarama_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go program, built once per process that runs tests."""
    go = shutil.which("go")
    if go is None:
        unavailable("sarama needs Go: no `go` in PATH")
    assert go is not None
    fetched = run_go(go, "mod", "download")
    if fetched.returncode != 0:
        unavailable(f"sarama needs its modules: {fetched.stderr.strip().splitlines()[-1]}")
    program = tmp_path_factory.mktemp("sarama") / "sarama_member"
    built = run_go(go, "build", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr
    return program


@pytest.fixture
def sarama_members(sarama_program: Path) -> SaramaMembers:
    """Makes members by sarama, of a strategy and a `Config.Version`."""

    return partial(sarama_members_of, sarama_program)
