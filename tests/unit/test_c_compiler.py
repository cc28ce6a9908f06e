"""What `make compiled` says before it begins, and what it must not be given."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import coordinator_server
from tools.c_compiler import missing

ROOT = Path(coordinator_server.__file__).resolve().parent.parent


def test_a_missing_compiler_and_missing_headers_are_both_named(tmp_path: Path) -> None:
    assert list(missing("no-such-cc", tmp_path)) == [
        "there is no `no-such-cc` in PATH",
        f"there is no Python.h in {tmp_path}",
    ]


def test_nothing_is_missing_where_a_compiler_and_the_headers_are(tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    assert list(missing("sh", tmp_path)) == []


def compiled() -> set[Path]:
    """The modules that `make compiled` makes C of."""
    text = (ROOT / "pyproject.toml").read_text()
    hook = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    found = {path for pattern in hook["include"] for path in ROOT.glob(pattern.lstrip("/"))}
    assert found
    return {
        path
        for path in found
        if path.name != "__init__.py" and f"/{path.relative_to(ROOT)}" not in hook["exclude"]
    }


def file_of(module: str) -> Path:
    """Where a module of ours is."""
    folder = "protocol" if module.startswith("coordinator_protocol") else ""
    return ROOT / folder / f"{module.replace('.', '/')}.py"


def inherited(module: ast.Module) -> Iterator[tuple[str, Path]]:
    """The classes of a module, and where what they inherit from is imported from."""
    origin = {
        alias.asname or alias.name: file_of(each.module)
        for each in ast.walk(module)
        if isinstance(each, ast.ImportFrom) and each.module
        for alias in each.names
    }
    for made in (each for each in ast.walk(module) if isinstance(each, ast.ClassDef)):
        for base in made.bases:
            if isinstance(base, ast.Name) and base.id in origin:
                yield made.name, origin[base.id]


def test_no_class_that_stays_python_inherits_from_one_that_is_compiled() -> None:
    modules = compiled()
    folders = ("coordinator_server", "pipeline", "protocol")
    left = [path for name in folders for path in (ROOT / name).rglob("*.py")]
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in left
        if path not in modules
        for name, base in inherited(ast.parse(path.read_text()))
        if base in modules
    ]
    assert wrong == []


C_KEYWORDS = {"alignof", "asm", "const", "extension", "inline", "label", "restrict", "signed"}
C_KEYWORDS |= {"attribute", "complex", "imag", "real", "thread", "typeof", "volatile"}
"""Those of gcc that begin with two underscores."""


def kept_from_compiling(module: ast.Module) -> Iterator[str]:
    """What mypyc accepts and makes C of that does not compile, or cannot be imported."""
    for node in ast.walk(module):
        # It puts an underscore before each attribute's name.
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            if node.attr[1:] in C_KEYWORDS:
                yield f"line {node.lineno}: {node.attr} becomes a keyword"
        elif isinstance(node, ast.ClassDef) and any(
            "dataclass" in ast.unparse(each) for each in node.decorator_list
        ):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation) == "object":
                    yield f"line {field.lineno}: a dataclass with a field of type object"


def test_what_the_compiler_cannot_take_is_not_used() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}, {what}"
        for path in sorted(compiled())
        for what in kept_from_compiling(ast.parse(path.read_text()))
    ]
    assert wrong == []
    text = "@dataclass(slots=True)\nclass A:\n    head: object\n\nself._thread = 1\n"
    assert len(list(kept_from_compiling(ast.parse(text)))) == 2
