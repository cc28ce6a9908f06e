"""Whether what `make compiled` needs is on this machine; it says what is missing."""

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def missing(compiler: str, headers: Path) -> Iterator[str]:
    """What has to be installed before C can be compiled for this Python."""
    if shutil.which(compiler) is None:
        yield f"there is no `{compiler}` in PATH"
    if not (headers / "Python.h").exists():
        yield f"there is no Python.h in {headers}"


def main() -> None:
    """Exit with 1 and one line if something is missing."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    lacks = list(missing(compiler, Path(sysconfig.get_path("include"))))
    if lacks:
        sys.exit(
            f"error: {' and '.join(lacks)}: install a C compiler and the headers of Python"
            " (Debian: gcc, libc6-dev and python3-dev), or use the server without compiling it"
        )


if __name__ == "__main__":
    main()
