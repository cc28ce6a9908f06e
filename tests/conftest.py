"""For all tests: in CI nothing may be skipped, so that what was not run is not called green."""

import os

import pytest
from hypothesis import settings

from coordinator_protocol import frames
from coordinator_server.group import group as machine
from coordinator_server.net import connection

# What an example takes says how busy the machine is, and nothing about what it shows.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

pytest_plugins = ("coordinator_server.testing.plugin",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the tests look where chance decides."""
    parser.addoption(
        "--interleavings",
        type=int,
        default=1,
        help="random stories of the pipeline's stream to compare with a batch run",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Number the stories; a number tells the same one again."""
    if "interleaving" in metafunc.fixturenames:
        metafunc.parametrize("interleaving", range(metafunc.config.getoption("interleavings")))


def pytest_sessionstart() -> None:
    """Under COORDINATOR_COMPILED, see that it is the compiled modules that are tested."""
    if os.environ.get("COORDINATOR_COMPILED"):
        for module in (connection, machine, frames):
            assert str(module.__file__).endswith(".so"), f"{module.__file__} is not compiled"


def _skipped(session: pytest.Session) -> int:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", [])) if reporter else 0


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run under COORDINATOR_CI in which a test was skipped."""
    if os.environ.get("COORDINATOR_CI") and session.exitstatus == 0 and _skipped(session):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why the run failed."""
    skipped = terminalreporter.stats.get("skipped", [])
    if os.environ.get("COORDINATOR_CI") and skipped:
        terminalreporter.write_line(f"COORDINATOR_CI is set: {len(skipped)} skipped tests fail it")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the settings of whoever runs it."""
    for name in [name for name in os.environ if name.startswith("KAFKA_")]:
        monkeypatch.delenv(name)
