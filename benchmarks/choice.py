"""What is to be measured, by parts of its name."""

import argparse
from collections.abc import Iterable, Sequence


def chosen(
    parser: argparse.ArgumentParser, names: Iterable[str], parts: Sequence[str]
) -> list[str]:
    """The names that have any of the parts in them, in either case; all of them without parts.

    Ends the command, saying what there is, if a part is in none.
    """
    names = list(names)
    if not parts:
        return names
    for part in parts:
        if not any(part.lower() in name.lower() for name in names):
            parser.error(f"{part!r}: expected a part of one of: {'; '.join(names)}")
    return [name for name in names if any(part.lower() in name.lower() for part in parts)]
