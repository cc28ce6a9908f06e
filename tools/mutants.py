"""Runs tests with one thing changed, each time in a process of its own.

A change in the body of a function is made in a fork of a process that has collected all tests, by
putting other code into the function. Any other has to be made before the module is imported.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NoReturn

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tools.mutations import Mutation

TESTS: Final = "tests/unit/group"
LONGEST_SECONDS: Final = 40
"""A mutant whose tests take more of a processor hangs."""
MOST_MEMORY: Final = 4 * 1024**3
OPTIONS: Final = ("-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=0", "--assert=plain")
"""Plain: what rewrites the asserts of a plugin's whole package would import it unchanged."""
SURVIVED, KILLED, BROKEN = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, 70

Spawn = Callable[[Mutation, Collection[str]], int]
"""Begins to run tests with a mutation in a new process; its id."""


class Lines:
    """Which tests execute which lines."""

    def __init__(self, data: coverage.CoverageData, tests: Collection[str]) -> None:
        self._all = frozenset(tests)
        self._by_line = {path: data.contexts_by_lineno(path) for path in data.measured_files()}

    def tests(self, path: Path, statement: range) -> frozenset[str]:
        """The tests that execute a statement; all of them if it is executed by an import."""
        by_line = self._by_line.get(str(path), {})
        found = frozenset(test for line in statement for test in by_line.get(line, ()))
        return self._all if "" in found else found


class _NoteTest:
    """A plugin that tells coverage which test is running."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.tests: list[str] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._measured.switch_context(nodeid)
        self.tests.append(nodeid)

    def pytest_runtest_logfinish(self) -> None:
        self._measured.switch_context("")


def lines_of_tests(root: Path, source: str) -> Lines:
    """Run all tests once, unchanged, and see what each executes. Exits if one fails."""
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        plugin.load()  # or every process would
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if not pid:
            os._exit(_measure(str(root / source), Path(folder)))
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"the tests of {TESTS} fail without any mutation")
        data = coverage.CoverageData(f"{folder}/lines")
        data.read()
        return Lines(data, json.loads((Path(folder) / "tests").read_text()))


def _measure(source: str, folder: Path) -> int:
    measured = coverage.Coverage(folder / "lines", source=[source], config_file=False)
    plugin = _NoteTest(measured)
    measured.start()
    code = pytest.main([*OPTIONS, TESTS], plugins=[plugin])
    measured.stop()
    measured.save()
    (folder / "tests").write_text(json.dumps(plugin.tests))
    return int(code)


def wait() -> tuple[int, bool]:
    """Wait for one process: its id, and whether all its tests passed.

    Exits if none ran, or if nothing was changed.
    """
    pid, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED, BROKEN):
        sys.exit(f"a process ended with {code!r}: no test was run with the change")
    return pid, code == SURVIVED


def _bound() -> None:
    """Keep a mutant from running for ever, eating all memory, and speaking."""
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_SECONDS, LONGEST_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


# --- changes in the body of a function ---


class AllCollected:
    """A plugin that calls `begin` with a way to spawn when all tests are collected."""

    def __init__(self, begin: Callable[[Spawn], None]) -> None:
        self._begin = begin

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        items = session.items

        def spawn(mutation: Mutation, tests: Collection[str]) -> int:
            pid = os.fork()
            if not pid:
                _run_changed(mutation, [item for item in items if item.nodeid in tests])
            return pid

        gc.freeze()
        self._begin(spawn)
        return True


def with_tests_collected(begin: Callable[[Spawn], None]) -> None:
    """Collect the tests, then call `begin`, once, with a way to spawn. Exits if that fails."""
    code = pytest.main([*OPTIONS, TESTS], plugins=[AllCollected(begin)])
    if code != pytest.ExitCode.OK:
        sys.exit(f"mutants could not be tried: pytest ended with {code!r}")


def _run_changed(mutation: Mutation, items: Sequence[pytest.Item]) -> NoReturn:
    """Change a function and run tests until one fails."""
    code = BROKEN
    try:
        _bound()
        _change(mutation)
        code = KILLED
        following = [*items[1:], None]
        for item, next_item in zip(items, following, strict=True):
            if any(report.failed for report in runtestprotocol(item, False, next_item)):
                break
        else:
            code = SURVIVED
    finally:
        os._exit(code)


def _change(mutation: Mutation) -> None:
    """Put the changed code into the function."""
    code = compile(mutation.source, mutation.path, "exec", dont_inherit=True)
    owner: Any = sys.modules[_module_name(mutation.path)]
    for name in mutation.function.split("."):
        code = next(
            const
            for const in code.co_consts
            if isinstance(const, CodeType) and const.co_name == name
        )
        owner = vars(owner)[name]
    outermost: Any = owner.fget if isinstance(owner, property) else owner
    function = inspect.unwrap(outermost)
    assert isinstance(function, FunctionType)
    if not code.co_freevars:  # whoever calls super() no longer is still given the class
        code = code.replace(co_freevars=function.__code__.co_freevars)
    function.__code__ = code


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# --- other changes ---


def spawn_with_import(mutation: Mutation, tests: Collection[str]) -> int:
    """Import the changed module, collect the tests, and run them."""
    pid = os.fork()
    if pid:
        return pid
    _bound()
    changed = _Changed(mutation)
    sys.meta_path.insert(0, changed)
    files = sorted({test.split("::")[0] for test in tests})
    code = pytest.main([*OPTIONS, *files], plugins=[_Select(tests)])
    os._exit(int(code) if changed.imported else BROKEN)


class _Select:
    """A plugin that runs some tests of those collected."""

    def __init__(self, tests: Collection[str]) -> None:
        self._tests = tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._tests]


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutated source in place of the module's own."""

    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        self._name = _module_name(mutation.path)
        self.imported = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The module, if it is the one that is changed."""
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self._mutation.path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        self.imported = True
        code = compile(self._mutation.source, self._mutation.path, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - that is what this is for
