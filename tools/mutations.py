"""Small, wrong changes to Python source: what `tools/mutate.py` tries one by one."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Members = Mapping[str, tuple[str, ...]]
"""The members of every enum, by its name."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One wrong change."""

    path: str
    function: str
    """With its class; empty outside of functions and classes."""
    in_body: bool
    """Of a function, and not among its defaults, in a class or in the module."""
    line: int
    statement: range
    """The lines of the statement it is in, without statements inside that one."""
    operator: str
    before: str
    after: str
    source: str
    """The whole module with the change."""

    @property
    def change(self) -> str:
        """What it does, in one line."""
        return f"{_short(self.before)} => {_short(self.after)}"

    @property
    def place(self) -> str:
        """Where it is, whatever lines move."""
        return f"{self.path}::{self.function}" if self.function else self.path


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 80 else f"{words[:77]}..."


def mutations(path: str, source: str, members: Members) -> list[Mutation]:
    """Every mutation of a module."""
    tree = ast.parse(source)
    aliases = {
        statement.targets[0].id: members[statement.value.id]
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Name)
        and statement.value.id in members
    }
    modules = {name: members[enum] for name, enum in _MODULES.items() if enum in members}
    walk = _Walk(path, source, {**members, **modules, **aliases})
    return list(walk.body(tree.body, "", inside=False))


_MODULES = {"states": "ClassicGroupState"}
"""Where the members of an enum are constants of a module: how that is imported."""


def enum_members(source: str) -> dict[str, tuple[str, ...]]:
    """The members of the enums a module defines."""
    return {
        definition.name: tuple(
            statement.targets[0].id
            for statement in definition.body
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        )
        for definition in ast.parse(source).body
        if isinstance(definition, ast.ClassDef)
        and any(isinstance(base, ast.Name) and "Enum" in base.id for base in definition.bases)
    }


Change = tuple[str, str]
"""An operator, and the text that takes the place of a node."""


class _Walk:
    """Goes through a module and yields what can be done to each node."""

    def __init__(self, path: str, source: str, members: Members) -> None:
        self._path = path
        self._raw = source.encode()
        self._members = members
        self._starts = [0]
        for line in self._raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def body(self, body: list[ast.stmt], name: str, *, inside: bool) -> Iterator[Mutation]:
        """The mutations of statements; `inside` a function they can be dropped."""
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                qualified = f"{name}.{statement.name}" if name else statement.name
                is_class = isinstance(statement, ast.ClassDef)
                yield from self._of(statement, qualified, inside=False)
                yield from self.body(statement.body, qualified, inside=not is_class)
            elif not _is_passive(statement):
                yield from self._of(statement, name, inside=inside)
                for inner in _bodies(statement):
                    yield from self.body(inner, name, inside=inside)

    def _of(self, statement: ast.stmt, name: str, *, inside: bool) -> Iterator[Mutation]:
        lines = _own_lines(statement)
        for node, (operator, after) in self._changes(statement, inside=inside):
            before, source = self._replace(node, operator, after)
            yield Mutation(
                self._path, name, inside, node.lineno, lines, operator, before, after, source
            )

    def _changes(
        self, statement: ast.stmt, *, inside: bool
    ) -> Iterator[tuple[ast.expr | ast.stmt, Change]]:
        if inside:
            yield from ((statement, change) for change in _drop(statement))
        yield from _branches(statement)
        for expression in _expressions(statement):
            for node in _walk(expression):
                if isinstance(node, ast.expr):
                    yield from ((node, change) for change in self._of_node(node))

    def _of_node(self, node: ast.AST) -> Iterator[Change]:
        for rule in _RULES:
            yield from rule(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = self._members.get(node.value.id, ())
            if node.attr in names:
                other = names[(names.index(node.attr) + 1) % len(names)]
                yield "enum", f"{node.value.id}.{other}"

    def _replace(self, node: ast.expr | ast.stmt, operator: str, after: str) -> tuple[str, str]:
        """The text of a node, and the module with another in its place."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        # In a pattern only a name with dots is a value; parentheses do no harm elsewhere.
        text = f"({after})" if isinstance(node, ast.expr) and operator != "enum" else after
        source = self._raw[:start] + text.encode() + self._raw[end:]
        return self._raw[start:end].decode(), source.decode()


# --- what a statement is made of ---


def _is_passive(statement: ast.stmt) -> bool:
    """Imports, documentation and what is for type checkers only."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case _:
            return False


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _own_lines(statement: ast.stmt) -> range:
    inner = [body[0].lineno for body in _bodies(statement) if body]
    # Patterns stand between the bodies of their match.
    last = max(inner) if isinstance(statement, ast.Match) else min(inner, default=0) - 1
    end = last if inner else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement computes itself; no annotations, no targets, no decorators."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (default for default in statement.args.defaults)
            yield from (default for default in statement.args.kw_defaults if default is not None)
        case ast.ClassDef():
            return
        case ast.Match():
            yield statement.subject
            for case in statement.cases:
                yield from (part for part in (case.pattern, case.guard) if part is not None)
        case _:
            for name in ("value", "test", "iter", "exc"):
                expression = getattr(statement, name, None)
                if expression is not None:
                    yield expression


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, but no text that is made for people."""
    if not isinstance(node, ast.JoinedStr):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


# --- the operators ---


def _drop(statement: ast.stmt) -> Iterator[Change]:
    match statement:
        case ast.AnnAssign(value=None):
            return
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() | ast.Delete():
            yield "drop", "pass"
        case ast.Raise() | ast.Continue() | ast.Break() | ast.Return(value=None):
            yield "drop", "pass"
        case ast.Return(value=ast.Constant(value=None | False)):
            return  # None is as good as False, and as None
        case ast.Return():
            yield "drop", "return None"


def _branches(statement: ast.stmt) -> Iterator[tuple[ast.expr, Change]]:
    """An `if`, or the guard of a case, that always goes one way."""
    match statement:
        case ast.If(test=test):
            yield test, ("branch", "True")
            yield test, ("branch", "False")
        case ast.Match():
            for guard in filter(None, (case.guard for case in statement.cases)):
                yield guard, ("branch", "True")
                yield guard, ("branch", "False")


_COMPARISONS: Final[dict[type[ast.cmpop], ast.cmpop]] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}


def _comparison(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for index, used in enumerate(node.ops):
            swapped = [*node.ops[:index], _COMPARISONS[type(used)], *node.ops[index + 1 :]]
            yield "compare", ast.unparse(ast.Compare(node.left, swapped, node.comparators))


def _boolean(node: ast.AST) -> Iterator[Change]:
    """`and` for `or`, an operand left out, `not` left out."""
    if isinstance(node, ast.BoolOp):
        swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", ast.unparse(ast.BoolOp(swapped, node.values))
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1 :]
            yield "boolean", ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "boolean", ast.unparse(node.operand)


def _constant(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "constant", str(node.value + 1)


_ARITHMETIC: Final[dict[type[ast.operator], ast.operator]] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
}


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        swapped = _ARITHMETIC[type(node.op)]
        yield "arithmetic", ast.unparse(ast.BinOp(node.left, swapped, node.right))


_FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _function(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        swapped = _FUNCTIONS.get(node.func.id)
        if swapped is not None:
            yield "function", ast.unparse(ast.Call(ast.Name(swapped), node.args, node.keywords))


def _condition(node: ast.AST) -> Iterator[Change]:
    """A conditional expression that always goes one way, a comprehension without its filter."""
    if isinstance(node, ast.IfExp):
        yield "condition", ast.unparse(node.body)
        yield "condition", ast.unparse(node.orelse)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for generator in node.generators:
            if generator.ifs:
                filters, generator.ifs = generator.ifs, []
                yield "condition", ast.unparse(node)
                generator.ifs = filters


_RULES: Final[tuple[Callable[[ast.AST], Iterator[Change]], ...]] = (
    _comparison,
    _boolean,
    _constant,
    _arithmetic,
    _function,
    _condition,
)
