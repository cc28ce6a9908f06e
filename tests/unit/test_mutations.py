"""The wrong changes that `make mutate` tries."""

import ast
import subprocess
import sys
from textwrap import dedent

import pytest

from tools.mutate import GROUP, ROOT, all_mutations, explained, modules
from tools.mutations import Mutation, enum_members, mutations

MEMBERS = {"Color": ("RED", "GREEN", "BLUE")}


def changes(source: str) -> set[tuple[str, str, str]]:
    found = mutations("some.py", dedent(source), MEMBERS)
    for mutation in found:
        ast.parse(mutation.source)
    return {(mutation.operator, mutation.before, mutation.after) for mutation in found}


def of_expression(text: str) -> set[tuple[str, str, str]]:
    """What is done to an expression, beside dropping it."""
    found = changes(f"def f():\n    return {text}\n")
    return {change for change in found if change[0] != "drop"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", {("compare", "a < b", "a <= b")}),
        ("a >= b", {("compare", "a >= b", "a > b")}),
        ("a is not b", {("compare", "a is not b", "a is b")}),
        (
            "a <= b < c",
            {("compare", "a <= b < c", "a < b < c"), ("compare", "a <= b < c", "a <= b <= c")},
        ),
        (
            "a and b",
            {
                ("boolean", "a and b", "a or b"),
                ("boolean", "a and b", "a"),
                ("boolean", "a and b", "b"),
            },
        ),
        ("not a", {("boolean", "not a", "a")}),
        ("f(3)", {("constant", "3", "4")}),
        ("f(on=True)", {("constant", "True", "False")}),
        ("a + b", {("arithmetic", "a + b", "a - b")}),
        ("min(a, b)", {("function", "min(a, b)", "max(a, b)")}),
        ("a if b else c", {("condition", "a if b else c", x) for x in "ac"}),
        ("[a for a in b if a]", {("condition", "[a for a in b if a]", "[a for a in b]")}),
        ("Color.BLUE", {("enum", "Color.BLUE", "Color.RED")}),
        ("Shape.BLUE", set()),
        ('f"{a + 1} for people"', set()),
        ('"text"', set()),
    ],
)
def test_an_expression_is_changed_in_these_ways(
    text: str, expected: set[tuple[str, str, str]]
) -> None:
    assert of_expression(text) == expected


def test_statements_of_functions_are_dropped_one_by_one() -> None:
    source = """
        def f(a: int):
            '''Says what it does.'''
            b: int
            b = a
            g(b)
            del b
            return a
        """
    assert changes(source) == {
        ("drop", "b = a", "pass"),
        ("drop", "g(b)", "pass"),
        ("drop", "del b", "pass"),
        ("drop", "return a", "return None"),
    }


def test_an_if_goes_either_way() -> None:
    assert changes("def f(a):\n    if a:\n        return\n") == {
        ("branch", "a", "True"),
        ("branch", "a", "False"),
        ("drop", "return", "pass"),
    }


def test_patterns_and_their_guards_are_changed() -> None:
    source = """
        def f(a, b):
            match a:
                case Color.RED | Color.GREEN if b:
                    return
        """
    assert changes(source) == {
        ("enum", "Color.RED", "Color.GREEN"),
        ("enum", "Color.GREEN", "Color.BLUE"),
        ("branch", "b", "True"),
        ("branch", "b", "False"),
        ("drop", "return", "pass"),
    }


def test_constants_and_defaults_are_changed_and_imports_are_not() -> None:
    source = """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import a
        LIMIT = 2
        class C:
            __slots__ = ("d",)
            size: int = 5
            def f(self, limit: int = 7) -> None: ...
        """
    assert changes(source) == {
        ("constant", "2", "3"),
        ("constant", "5", "6"),
        ("constant", "7", "8"),
    }


def test_an_enum_may_go_by_another_name() -> None:
    assert changes("_C = Color\ndef f():\n    return _C.RED\n") == {
        ("enum", "_C.RED", "_C.GREEN"),
        ("drop", "return _C.RED", "return None"),
    }


def test_the_members_of_an_enum_may_be_constants_of_a_module() -> None:
    changes = {mutation.change for mutation in all_mutations() if mutation.operator == "enum"}
    assert "states.STABLE => states.DEAD" in changes


def test_the_members_of_enums_are_found_in_their_order() -> None:
    source = 'class A(StrEnum):\n    """Doc."""\n    X = "x"\n    Y = "y"\nclass B:\n    Z = 1\n'
    assert enum_members(source) == {"A": ("X", "Y")}


def test_a_mutation_knows_where_it_is() -> None:
    source = (
        "class C:\n    def f(self):\n        if (\n            a\n        ):\n            b()\n"
    )
    found = {mutation.after: mutation for mutation in mutations("some.py", source, {})}
    assert found["True"].place == found["pass"].place == "some.py::C.f"
    assert (found["True"].line, found["True"].statement) == (4, range(3, 6))
    assert (found["pass"].line, found["pass"].statement) == (6, range(6, 7))
    assert found["True"].in_body


def test_all_of_the_group_is_mutated() -> None:
    paths = {mutation.path for mutation in all_mutations()}
    assert {"join.py", "sync.py", "group.py", "offsets.py"} <= {p.split("/")[-1] for p in paths}
    assert all(path.startswith(GROUP) for path in paths)
    assert len(modules()) >= len(paths)


def test_a_survivor_is_explained_by_a_line_that_names_place_and_change() -> None:
    mutation = Mutation(
        f"{GROUP}/a.py", "f", True, 3, range(3, 4), "drop", "g()", "pass", "def f(): pass"
    )
    assert explained(mutation, ["| `a.py::f` | `g() => pass` | because |"])
    assert not explained(mutation, ["| `a.py::f` | `h() => pass` | because |"])
    assert not explained(mutation, ["| `a.py::h` | `g() => pass` | because |"])


# --- changes that are made before a module is imported ---

TRY = """
from tools.mutants import spawn_with_import, wait
from tools.mutate import all_mutations

change = "ClassicGroupState.EMPTY => ClassicGroupState.PREPARING_REBALANCE"
(mutation,) = [mutation for mutation in all_mutations() if mutation.change == change]
test = "test_a_simple_group_is_described_as_empty"
spawn_with_import(mutation, [f"tests/unit/group/test_groups.py::{test}"])
print("survived" if wait()[1] else "killed")
"""


def tried(code: str) -> tuple[str, str]:
    """What a process says that tries a mutation, and why it gave up."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip(), done.stderr.strip()


def test_a_change_outside_of_functions_is_seen_by_tests_of_what_it_changes() -> None:
    assert tried(TRY)[0] == "killed"


def test_a_change_that_comes_too_late_to_be_imported_counts_neither_way() -> None:
    said, why = tried(f"import coordinator_server.group.classic.state{TRY}")
    assert said == ""
    assert "no test was run with the change" in why
