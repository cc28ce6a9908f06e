"""Counts how often points are passed, finds out what kind they are, and raises at armed ones."""

import ast
import asyncio
import errno
import linecache
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from tests.chaos.rewrite import PACKAGE, Points

EXCEPTIONS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("chaos"),
    "MemoryError": lambda: MemoryError("chaos"),
    "OSError": lambda: OSError(errno.EIO, "chaos"),
    "CancelledError": lambda: asyncio.CancelledError("chaos"),
}
NAMELESS = frozenset({"__init__", "__post_init__", "__new__", "__init_subclass__"})
"""Functions that are always called by another name."""


class Armed:
    """An exception to raise at a point."""

    __slots__ = ("left", "make", "skip")

    def __init__(self, exception: str, times: int, skip: int) -> None:
        self.make = EXCEPTIONS[exception]
        self.left = times
        self.skip = skip


class Injector:
    """Has the functions that rewritten code calls."""

    def __init__(self, points: Points, struck: Callable[[str], None]) -> None:
        self._points = points
        self._struck = struck
        self.hits: dict[int, int] = {}
        self.armed: dict[int, Armed] = {}
        self.kinds: dict[int, set[str]] = {}
        """Of the entries of functions; empty while nobody wants to know."""
        self.is_recording = False
        self._callers: dict[tuple[CodeType, int], ast.expr | None] = {}
        self._lock = threading.Lock()

    def strike(self, number: int) -> None:
        """Raise what is armed at a point."""
        self.hits[number] = self.hits.get(number, 0) + 1
        if self.is_recording and self._points.is_entry[number]:
            self._note_kind(number, sys._getframe(1))
        if number in self.armed:
            self._raise(number)

    def strike_after(self, number: int, value: Any) -> Any:
        """The same, once there is a value."""
        self.strike(number)
        return value

    def _raise(self, number: int) -> None:
        with self._lock:
            armed = self.armed.get(number)
            if armed is None:
                return
            if armed.skip > 0:
                armed.skip -= 1
                return
            armed.left -= 1
            if armed.left <= 0:
                del self.armed[number]
        self._struck(self._points.names[number])
        raise armed.make()

    # --- what kind an entry is ---

    def _note_kind(self, number: int, frame: FrameType) -> None:
        kind = self._kind(frame)
        if kind is not None:
            self.kinds.setdefault(number, set()).add(kind)

    def _kind(self, frame: FrameType) -> str | None:
        """ "thread" or "callback" if the function was not called by its own name, else None."""
        name = frame.f_code.co_name
        if name in NAMELESS:
            return None
        is_main = threading.current_thread() is threading.main_thread()
        caller = frame.f_back
        if caller is None or f"{os.sep}{PACKAGE}{os.sep}" not in caller.f_code.co_filename:
            return "callback" if is_main else "thread"
        key = (caller.f_code, caller.f_lasti)
        if key not in self._callers:
            self._callers[key] = _called(caller)
        called = self._callers[key]
        return None if called is None or _is_direct(called, frame, caller) else "callback"


def _is_direct(called: ast.expr, frame: FrameType, caller: FrameType) -> bool:
    """Whether a call names the function that it has entered."""
    code = frame.f_code
    if isinstance(called, ast.Name):
        return called.id == code.co_name
    if not isinstance(called, ast.Attribute) or called.attr != code.co_name:
        return False
    if "." in code.co_qualname:
        return True
    # A function of a module, found in an attribute: of the module, or of what was told of it.
    owner = called.value
    return isinstance(owner, ast.Name) and isinstance(caller.f_globals.get(owner.id), ModuleType)


def _called(frame: FrameType) -> ast.expr | None:
    """The expression that a frame is just calling; None for what is no call."""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last, begin, end = positions
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, line) for line in range(first, last + 1)]
    raw = [line.encode() for line in lines]
    raw[-1] = raw[-1][:end]
    raw[0] = raw[0][begin:]
    try:
        node: ast.AST = ast.parse(b"(" + b"".join(raw).strip() + b")", mode="eval").body
    except SyntaxError:
        return None
    if isinstance(node, ast.Await):
        node = node.value
    return node.func if isinstance(node, ast.Call) else None
