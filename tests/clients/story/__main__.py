"""Play the story and print its table: `python -m tests.clients.story`; exits with 1 if it differs.

About half a minute. Without Chromium the page is left out.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.clients.story.scenes import SCENES, SETTINGS, play
from tests.clients.story.script import Story
from tests.clients.story.surfaces import read_all
from tests.clients.story.table import disagreements, lines, markdown
from tests.support.server import ServerProcess


def main() -> int:
    """Play it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="coordinator-story-") as folder,
        ServerProcess(Path(folder) / "server", SETTINGS) as server,
    ):
        story = Story(server)
        play(story, SCENES, Path(folder) / "clients")
        made = lines(story, read_all(story))
    sys.stdout.write("\n".join(markdown(made)) + "\n")
    return 1 if disagreements(made) else 0


if __name__ == "__main__":
    sys.exit(main())
