"""Prepares the code under test: a possible switch of threads before every statement, planted bugs.

The functions of the storage modules are compiled again from their sources and get the new code in
place, so all classes and references stay what they are. A planted bug is an edit of that source.
"""

import ast
import functools
import importlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from coordinator_server.storage.segments.threads import DiskThreads
from tests.simulation.storage.primitives import (
    SimCondition,
    SimEvent,
    SimExecutor,
    SimLock,
    SimQueue,
    SimRLock,
    SimThreading,
)
from tests.simulation.storage.scheduler import Scheduler

PACKAGE: Final = "coordinator_server.storage.segments"
PREEMPT: Final = "__preempt__"
# Pure functions, and what only a start or another process uses.
_LEFT_OUT: Final = {
    "adaptive_linger",
    "batch_reader",
    "journal_format",
    "log_identity",
    "progress",
    "shares",
}


class Edit(NamedTuple):
    """A planted bug: a text in the source of a module that is replaced."""

    module: str
    old: str
    new: str


def modules() -> list[ModuleType]:
    """The modules of the segment storage, and the topics' partitions."""
    package = importlib.import_module(PACKAGE)
    assert package.__file__ is not None
    names = sorted(path.stem for path in Path(package.__file__).parent.glob("*.py"))
    found = [importlib.import_module(f"{PACKAGE}.{name}") for name in names if name != "__init__"]
    return [*found, importlib.import_module("coordinator_server.topics.partition")]


class _Preempting(ast.NodeTransformer):
    """Calls `__preempt__` before every statement of every function."""

    def __init__(self) -> None:
        self._depth = 0

    def _visit_function(self, node: Any) -> Any:
        self._depth += 1
        node.body = self._with_calls(node.body)
        self._depth -= 1
        return node

    visit_FunctionDef = _visit_function  # noqa: N815 - named by ast
    visit_AsyncFunctionDef = _visit_function  # noqa: N815 - named by ast

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(each) for each in node.body]
        return node

    def _with_calls(self, body: list[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for number, each in enumerate(body):
            is_docstring = number == 0 and (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            )
            if not is_docstring and not isinstance(each, ast.Nonlocal | ast.Global):
                call = ast.Expr(ast.Call(ast.Name(PREEMPT, ast.Load()), [], []))
                statements.append(ast.fix_missing_locations(ast.copy_location(call, each)))
            statements.append(self.visit(each))
        return statements

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if self._depth:
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(node, name, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                    setattr(node, name, self._with_calls(inner))
            for handler in getattr(node, "handlers", []):
                handler.body = self._with_calls(handler.body)
            return node
        return super().generic_visit(node)


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def _compiled(module: ModuleType, source: str) -> dict[str, CodeType]:
    assert module.__file__ is not None
    tree = ast.parse(source)
    if module.__name__.rpartition(".")[2] not in _LEFT_OUT:
        tree = _Preempting().visit(tree)
    return dict(_codes(compile(tree, module.__file__, "exec")))


def functions_of(module: ModuleType) -> dict[str, FunctionType]:
    """The functions of a module by their qualified names, methods and properties included."""
    found: dict[str, FunctionType] = {}

    def add(value: Any) -> None:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, property):
            add(value.fget)
        while hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            found[value.__qualname__] = value

    for value in list(vars(module).values()):
        add(value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            for member in list(vars(value).values()):
                add(member)
    return found


@functools.cache
def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text(encoding="utf-8")


@contextmanager
def instrumented(*edits: Edit) -> Iterator[None]:
    """Functions with preemption, and with planted bugs, while the context lasts."""
    originals: list[tuple[FunctionType, CodeType]] = []
    for edit in edits:
        if not any(each.__name__.endswith(f".{edit.module}") for each in modules()):
            raise ValueError(f"no module {edit.module}")
    try:
        for module in modules():
            source = _source(module)
            for edit in edits:
                if module.__name__.endswith(f".{edit.module}"):
                    if source.count(edit.old) != 1:
                        raise ValueError(f"{edit.module}: not found once: {edit.old!r}")
                    source = source.replace(edit.old, edit.new)
            codes = _compiled(module, source)
            for name, function in functions_of(module).items():
                code = codes.get(name)
                if code is not None and code.co_freevars == function.__code__.co_freevars:
                    originals.append((function, function.__code__))
                    function.__code__ = code
            vars(module).setdefault(PREEMPT, _nothing)
        yield
    finally:
        for function, code in originals:
            function.__code__ = code


def _nothing() -> None:
    """Outside of a simulated process."""


@contextmanager
def scheduled(scheduler: Scheduler) -> Iterator[None]:
    """Threads, locks and time of the modules are the scheduler's while the context lasts."""
    substitutes = _substitutes(scheduler)
    with ExitStack() as undo:
        for module in modules():
            for name, value in list(vars(module).items()):
                if not name.startswith("__") and id(value) in substitutes:
                    undo.enter_context(patch.object(module, name, substitutes[id(value)]))
            undo.enter_context(patch.object(module, PREEMPT, scheduler.preempt))
        # Made when their module was imported, with real threads.
        pools: dict[int, Any] = {}
        for module in modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, DiskThreads):
                    fresh = pools.setdefault(id(value), DiskThreads(value._name, value._most))
                    undo.enter_context(patch.object(module, name, fresh))
        yield


def _substitutes(scheduler: Scheduler) -> dict[int, Any]:
    """The simulated primitive for each real one, and for the modules they come from, by id."""
    lock, condition = partial(SimLock, scheduler), partial(SimCondition, scheduler)
    event, thread = partial(SimEvent, scheduler), partial(SimThreading, scheduler)
    rlock, items = partial(SimRLock, scheduler), partial(SimQueue, scheduler)
    sim_threading = SimpleNamespace(
        Lock=lock, RLock=rlock, Condition=condition, Event=event, Thread=thread
    )
    return {
        id(threading.Lock): lock,
        id(threading.RLock): rlock,
        id(threading.Condition): condition,
        id(threading.Event): event,
        id(threading.Thread): thread,
        id(threading): sim_threading,
        id(queue.SimpleQueue): items,
        id(queue.Queue): items,
        id(queue): SimpleNamespace(SimpleQueue=items, Queue=items, Empty=queue.Empty),
        id(ThreadPoolExecutor): partial(SimExecutor, scheduler),
        id(time): _sim_time(scheduler),
        id(time.monotonic): lambda: scheduler.now_ms / 1000,
    }


def _sim_time(scheduler: Scheduler) -> SimpleNamespace:
    sleep: Callable[[float], None] = lambda seconds: scheduler.sleep(  # noqa: E731
        int(seconds * 1000), "a sleep"
    )
    return SimpleNamespace(monotonic=lambda: scheduler.now_ms / 1000, sleep=sleep)
