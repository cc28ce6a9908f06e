"""Reads a Dockerfile: its instructions by stage."""

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction, its lines joined."""

    name: str
    """In capitals."""
    text: str
    """What comes after the name."""

    @property
    def words(self) -> list[str]:
        """The words as a shell would split them."""
        return shlex.split(self.text)

    @property
    def arguments(self) -> list[str]:
        """The JSON list of CMD, ENTRYPOINT, or a HEALTHCHECK's CMD."""
        return [str(each) for each in json.loads(self.text[self.text.index("[") :])]


def stages(path: Path) -> list[list[Instruction]]:
    """The instructions of every stage, which begins with its FROM; not those before the first."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[list[Instruction]] = []
    for line in joined.splitlines():
        if not line.strip():
            continue
        name, _, text = line.partition(" ")
        if name.upper() == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(name.upper(), text.strip()))
    return found
