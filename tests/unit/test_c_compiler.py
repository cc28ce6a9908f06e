"""What `make compiled` says before it begins."""

from pathlib import Path

from tools.c_compiler import missing


def test_a_missing_compiler_and_missing_headers_are_both_named(tmp_path: Path) -> None:
    assert list(missing("no-such-cc", tmp_path)) == [
        "there is no `no-such-cc` in PATH",
        f"there is no Python.h in {tmp_path}",
    ]


def test_nothing_is_missing_where_a_compiler_and_the_headers_are(tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    assert list(missing("sh", tmp_path)) == []
