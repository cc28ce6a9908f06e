"""Rewrites the server's modules at their import, so that every point can raise an exception.

A point is the first call in a function, the moment before and the moment after an `await`, an
`async for` or an `async with`. Points are found in the syntax tree; none is listed.

Where a function begins with statements that call nothing, such as an assignment, or with a `try`,
its point is behind the former and inside the latter: that is where a real exception would come
from, and the place a function can do something about.
"""

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

PACKAGE = "coordinator_server"
STRIKE = "__chaos__"
"""The function that rewritten code calls with the number of a point; found in `builtins`."""
STRIKE_AFTER = "__chaos_after__"
"""The same, with the result of an `await`, which it returns."""


class Points:
    """The points of all modules that have been imported, by number."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.is_entry: list[bool] = []
        self.silent: set[int] = set()
        """Entries of functions that call nothing, and so can hardly fail."""
        self.methods: dict[str, dict[str, int]] = {}
        """Methods of each class, with the number of the entry, by the name of the class."""
        self.bases: dict[str, list[str]] = {}
        """Names of the base classes of each class, as they are in the source."""

    def add(self, name: str, *, is_entry: bool = False) -> int:
        """The number of a new point; a name that was used already gets a suffix."""
        unique, copy = name, 1
        while unique in self.numbers:
            copy += 1
            unique = f"{name}#{copy}"
        number = self.numbers[unique] = len(self.names)
        self.names.append(unique)
        self.is_entry.append(is_entry)
        return number

    def ports(self) -> set[int]:
        """Entries of the methods by which classes implement an abstract class or a protocol."""
        abstract = {
            name: {method for method in self.methods[name] if not method.startswith("_")}
            for name, bases in self.bases.items()
            if {"Protocol", "ABC"} & set(bases)
        }
        found: set[int] = set()
        for name, methods in self.methods.items():
            if name in abstract:
                continue
            for port, wanted in abstract.items():
                short = port.rpartition(".")[2]
                if wanted and (wanted <= methods.keys() or short in self.bases[name]):
                    found.update(methods[each] for each in wanted & methods.keys())
        return found


class _Rewriter(ast.NodeTransformer):
    """Adds the calls to the tree of one module."""

    def __init__(self, points: Points, module: str) -> None:
        self._points = points
        self._path = [module.removeprefix(PACKAGE + ".")]
        self._awaits = [0]

    # --- calls ---

    def _call(self, number: int, at: ast.AST) -> ast.expr:
        call = ast.Call(ast.Name(STRIKE, ast.Load()), [ast.Constant(number)], [])
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def _point(self, suffix: str, *, is_entry: bool = False) -> int:
        return self._points.add(".".join(self._path) + suffix, is_entry=is_entry)

    def _before(self, value: ast.expr, suffix: str) -> ast.expr:
        """`value`, preceded by a point, which returns None."""
        call = self._call(self._point(suffix), value)
        return ast.copy_location(ast.BoolOp(ast.Or(), [call, value]), value)

    def _statement(self, suffix: str, at: ast.AST, *, is_entry: bool = False) -> ast.stmt:
        call = self._call(self._point(suffix, is_entry=is_entry), at)
        return ast.copy_location(ast.Expr(call), at)

    # --- functions and classes ---

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._path.append(node.name)
        name = ".".join(self._path)
        self._points.methods[name] = {}
        self._points.bases[name] = [_last_name(base) for base in node.bases]
        self.generic_visit(node)
        self._path.pop()
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        owner = ".".join(self._path)
        self._path.append(node.name)
        self._awaits.append(0)
        entry = self._statement("", node.body[0], is_entry=True)
        number = len(self._points.names) - 1
        if owner in self._points.methods:
            self._points.methods[owner].setdefault(node.name, number)
        body, place, has_call = _first_call(node)
        if not has_call:
            self._points.silent.add(number)
        first = body[place] if place < len(body) else None
        node.body[:] = [self.visit(statement) for statement in node.body]
        # Statements are rewritten where they are, so the first one is still that.
        body.insert(body.index(first) if first is not None else place, entry)
        self._awaits.pop()
        self._path.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._path.append("<lambda>")
        call = self._call(self._point("", is_entry=True), node.body)
        body = self.visit(node.body)
        node.body = ast.copy_location(ast.BoolOp(ast.Or(), [call, body]), body)
        self._path.pop()
        return node

    # --- awaits ---

    def _next_await(self) -> str:
        self._awaits[-1] += 1
        return f":await{self._awaits[-1]}"

    def visit_Await(self, node: ast.Await) -> ast.AST:
        name = self._next_await()
        value = self.visit(node.value)
        node.value = self._before(value, f"{name}:before")
        after = ast.Constant(self._point(f"{name}:after"))
        call = ast.Call(ast.Name(STRIKE_AFTER, ast.Load()), [after, node], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        name = self._next_await()
        self.generic_visit(node)
        node.iter = self._before(node.iter, f"{name}:for")
        node.body.insert(0, self._statement(f"{name}:next", node.body[0]))
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        name = self._next_await()
        self.generic_visit(node)
        first = node.items[0]
        first.context_expr = self._before(first.context_expr, f"{name}:with")
        node.body.insert(0, self._statement(f"{name}:entered", node.body[0]))
        return node


_CALLS = (ast.Call, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.With, ast.Yield, ast.YieldFrom)


def _first_call(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> tuple[list[ast.stmt], int, bool]:
    """The statements among which the first one is that calls something, and its place there.

    And whether there is such a one.
    """
    body = node.body
    begin = 1 if ast.get_docstring(node, clean=False) is not None else 0
    fallback = body, begin, any(_calls(statement) for statement in body)
    while True:
        for place, statement in enumerate(body):
            if place >= begin and _calls(statement):
                break
        else:
            return fallback
        if not isinstance(statement, ast.Try):
            return body, place, True
        body, begin = statement.body, 0
        fallback = body, 0, True


def _calls(statement: ast.stmt) -> bool:
    """Whether a statement calls something, other than in a function that it defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if isinstance(statement, ast.Try):
        return True
    return any(isinstance(each, _CALLS) for each in ast.walk(statement))


def _last_name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


class _Loader(SourceFileLoader):
    points: Points

    def get_code(self, fullname: str) -> CodeType:
        """Compile anew: what Python keeps of a module has no points."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        tree = ast.fix_missing_locations(_Rewriter(self.points, fullname).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    """Finds the server's modules, and has them rewritten."""

    def __init__(self, points: Points, packages: Sequence[str]) -> None:
        self._points = points
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See MetaPathFinder."""
        if not any(fullname == each or fullname.startswith(f"{each}.") for each in self._packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            loader = _Loader(fullname, spec.loader.path)
            loader.points = self._points
            spec.loader = loader
        return spec


def install(
    points: Points, strike: Any, strike_after: Any, packages: Sequence[str] = (PACKAGE,)
) -> None:
    """Rewrite whatever of the server, or of some packages in it, is imported from now on."""
    import builtins

    if any(name == PACKAGE or name.startswith(PACKAGE + ".") for name in sys.modules):
        raise RuntimeError(f"{PACKAGE} was imported before it could be rewritten")
    setattr(builtins, STRIKE, strike)
    setattr(builtins, STRIKE_AFTER, strike_after)
    sys.meta_path.insert(0, Finder(points, packages))
