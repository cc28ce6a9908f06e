"""The project itself: rules of dependency, and the package as others install it."""

import ast
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import coordinator_server

ROOT = Path(coordinator_server.__file__).resolve().parent.parent
PACKAGES = (
    ROOT / "coordinator_server",
    ROOT / "pipeline/coordinator_pipeline",
    ROOT / "protocol/coordinator_protocol",
)


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def lint_imports(cwd: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return run(command, "--no-cache", "--config", ROOT / "pyproject.toml", cwd=cwd)


def test_no_import_crosses_a_border() -> None:
    linted = lint_imports(ROOT)
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("package", "imported"),
    [
        ("group", "asyncio"),
        ("group", "time"),
        ("group", "coordinator_server.ports"),
        ("api", "coordinator_server.group.classic"),
        ("api", "coordinator_server.storage.base"),
        ("runtime", "coordinator_server.topics"),
        ("runtime", "coordinator_server.group.classic.state"),
        ("storage", "coordinator_server.group.rebalance_events"),
        ("topics", "coordinator_server.runtime"),
        ("observe", "coordinator_protocol"),
        ("net", "coordinator_server.observe.http"),
    ],
)
def test_an_import_that_crosses_a_border_is_found(
    tmp_path: Path, package: str, imported: str
) -> None:
    for path in PACKAGES:
        copy_sources(ROOT / path, tmp_path / path.name)
    (tmp_path / f"coordinator_server/{package}/broken.py").write_text(f"import {imported}\n")
    linted = lint_imports(tmp_path)
    assert linted.returncode == 1
    # Long names are broken into lines.
    found = " ".join(linted.stdout.split())
    assert f"coordinator_server.{package}.broken -> {imported} (l.1)" in found


def copy_sources(source: Path, target: Path) -> None:
    for file in source.rglob("*.py"):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_has_the_packages_their_types_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "coordinator_server",
        "coordinator_pipeline",
        "coordinator_protocol",
        "kafka_group_coordinator",
    }
    assert {f"{path.name}/py.typed" for path in PACKAGES} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
@pytest.mark.timeout(900)  # 20 s of a core and the network: others may have both meanwhile
def test_the_wheel_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "empty"
    venv.create(environment)
    installed = run(
        *(sys.executable, "-m", "pip", "--python", environment, "install", "--quiet"),
        *("--disable-pip-version-check", "--constraint", ROOT / "constraints.txt", wheel),
    )
    assert installed.returncode == 0, installed.stderr
    commands: list[list[str | Path]] = [
        [environment / "bin/coordinator-server", "--help"],
        [environment / "bin/python", "-m", "coordinator_server", "--help"],
    ]
    for command in commands:
        helped = run(*command, cwd=tmp_path)
        assert (helped.returncode, helped.stderr) == (0, "")
        assert "healthcheck" in helped.stdout


@pytest.mark.parametrize(
    ("ci", "code", "last"), [("1", 1, "1 skipped tests fail it"), ("", 0, "1 passed, 1 skipped")]
)
def test_a_skipped_test_fails_in_ci_alone(tmp_path: Path, ci: str, code: int, last: str) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\ndef test_a(): pass\n\ndef test_b(): pytest.skip('no Go')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "COORDINATOR_CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended.stdout
    assert last in ended.stdout


MAX_FILE_LINES = 430
MAX_FUNCTION_LINES = 60


def test_files_and_functions_can_be_read_in_one_go() -> None:
    listed = run("git", "ls-files", "*.py")
    if listed.returncode:
        pytest.skip("no git checkout")
    long: list[str] = []
    for name in listed.stdout.split():
        text = (ROOT / name).read_text()
        if text.count("\n") > MAX_FILE_LINES:
            long.append(f"{name}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{name}:{node.lineno} {node.name}: {lines} lines")
    assert long == []
