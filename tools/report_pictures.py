"""Takes the pictures of a report in `docs/screenshots`: `python -m tools.report_pictures FILE`.

FILE is a report.html; `make pipeline` prints the path of one. Chromium must be installed.
"""

import argparse
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Error, sync_playwright

from tools.screenshots import FOLDER


class Shot(NamedTuple):
    """The file name, size in pixels and colour scheme of a picture."""

    name: str
    width: int
    height: int
    scheme: Literal["light", "dark"]


SHOTS = (
    Shot("report", 1280, 1500, "light"),
    Shot("report-dark", 1280, 1500, "dark"),
    Shot("report-phone", 390, 1400, "light"),
)


def take(report: Path, chromium: str) -> None:
    """Take all pictures. Raises Error if Chromium does not start."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shot in SHOTS:
            page = browser.new_page(
                viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme
            )
            page.goto(report.resolve().as_uri())
            path = FOLDER / f"{shot.name}.png"
            page.screenshot(path=path)
            print(path)
        browser.close()


def main() -> int:
    """Take the pictures of a report; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    try:
        take(given.report, given.chromium)
    except Error as error:
        print(f"error: {error}".splitlines()[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
