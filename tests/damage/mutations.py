"""Damages one file or directory of a data directory, as a disk or a person might."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

PAGE: Final = 4096
SECTOR: Final = 512


@dataclass(frozen=True)
class Damaged:
    """What was done, and to which file."""

    kind: str
    file_kind: str
    path: Path
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path.parent.name}/{self.path.name} ({self.detail})"


Mutation = Callable[[Path, Random], str | None]
"""Damages a file and says how; None if nothing can be done to this one."""


def used_bytes(path: Path) -> int:
    """Where the zeros begin that a file ends with: journals are made of zeros first."""
    return len(path.read_bytes().rstrip(b"\0"))


def _position(path: Path, random: Random) -> int | None:
    used = used_bytes(path)
    if not used:
        return None
    near = random.choice((0, max(used - 64, 0), random.randrange(used)))
    return min(near + random.randrange(64), used - 1)


def _overwrite(path: Path, at: int, new: bytes) -> str | None:
    data = path.read_bytes()
    changed = data[:at] + new + data[at + len(new) :]
    if changed == data:
        return None
    path.write_bytes(changed[: max(len(data), at + len(new))])
    return f"{len(new)} bytes at {at} of {len(data)}"


def flip_bit(path: Path, random: Random) -> str | None:
    """Change one bit."""
    at = _position(path, random)
    if at is None:
        return None
    return _overwrite(path, at, bytes([path.read_bytes()[at] ^ 1 << random.randrange(8)]))


def garbage(path: Path, random: Random) -> str | None:
    """Put random bytes in the place of some."""
    at = _position(path, random)
    if at is None:
        return None
    size = min(random.choice((2, 16, 200, SECTOR)), path.stat().st_size - at)
    return _overwrite(path, at, random.randbytes(size))


def zero_sectors(path: Path, random: Random) -> str | None:
    """Lose a sector or some, as a disk does."""
    at = _position(path, random)
    if at is None:
        return None
    at -= at % SECTOR
    size = min(SECTOR * random.randint(1, 4), path.stat().st_size - at)
    return _overwrite(path, at, bytes(size))


def zero_page(path: Path, random: Random) -> str | None:
    """Lose a page, as a system does that could not write one."""
    at = _position(path, random)
    if at is None:
        return None
    at -= at % PAGE
    return _overwrite(path, at, bytes(min(PAGE, path.stat().st_size - at)))


def zero_all(path: Path, _random: Random) -> str | None:
    """Lose all contents, and keep the length."""
    return _overwrite(path, 0, bytes(path.stat().st_size))


def truncate(path: Path, random: Random) -> str | None:
    """Cut the file somewhere."""
    used = used_bytes(path)
    if not used:
        return None
    size = random.choice((random.randrange(used), max(used - random.randint(1, 40), 0)))
    with path.open("r+b") as file:
        file.truncate(size)
    return f"to {size} of {used} used"


def empty(path: Path, _random: Random) -> str | None:
    """Cut the file to nothing."""
    if not path.stat().st_size:
        return None
    path.write_bytes(b"")
    return "to nothing"


def extend(path: Path, random: Random) -> str:
    """Add bytes at the end."""
    size = random.choice((1, 60, SECTOR, PAGE))
    with path.open("ab") as file:
        file.write(random.randbytes(size))
    return f"by {size} bytes"


def extend_zeros(path: Path, random: Random) -> str:
    """Add zeros at the end."""
    size = random.choice((1, SECTOR, PAGE))
    with path.open("ab") as file:
        file.write(bytes(size))
    return f"by {size} zeros"


def replace_all(path: Path, random: Random) -> str | None:
    """Put random bytes in the place of everything."""
    size = path.stat().st_size
    return _overwrite(path, 0, random.randbytes(size)) if size else None


def remove(path: Path, _random: Random) -> str:
    """Remove the file."""
    path.unlink()
    return "removed"


def make_directory(path: Path, _random: Random) -> str:
    """Put a directory in the place of the file."""
    path.unlink()
    path.mkdir()
    return "a directory"


def remove_directory(path: Path, _random: Random) -> str:
    """Remove the directory of a log."""
    shutil.rmtree(path)
    return "removed"


def empty_directory(path: Path, _random: Random) -> str:
    """Remove everything in the directory of a log."""
    shutil.rmtree(path)
    path.mkdir()
    return "emptied"


OF_FILES: Final[tuple[Mutation, ...]] = (
    flip_bit,
    flip_bit,
    flip_bit,
    garbage,
    garbage,
    zero_sectors,
    zero_page,
    zero_all,
    truncate,
    truncate,
    empty,
    extend,
    extend_zeros,
    replace_all,
    remove,
    make_directory,
)
OF_DIRECTORIES: Final[tuple[Mutation, ...]] = (remove_directory, empty_directory)


def file_kind(path: Path) -> str:
    """What a file is for, by its name."""
    name = path.name
    if path.is_dir():
        return "log directory"
    if name.startswith(".coordinator-journal-"):
        return "journal"
    if name.endswith(".log"):
        internal = path.parent.name.startswith("__consumer_offsets")
        return "segment" if internal else "topic segment"
    return name if name.startswith(".") else name.partition(".cut")[0]


def targets(data: Path) -> dict[str, list[Path]]:
    """Everything that can be damaged, by what it is for."""
    found: dict[str, list[Path]] = {}
    for path in sorted(data.rglob("*")):
        if path.name != ".lock":
            found.setdefault(file_kind(path), []).append(path)
    return found


def damage(data: Path, random: Random, only: str | None = None) -> Damaged:
    """Damage something; what it is for is chosen first, so that rare files have their turn."""
    found = targets(data)
    weights = {kind: 4 if kind in ("journal", "segment") else 1 for kind in found}
    kinds = [kind for kind in found if only in (None, kind)]
    while True:
        (kind,) = random.choices(kinds, [weights[each] for each in kinds])
        path = random.choice(found[kind])
        mutation = random.choice(OF_DIRECTORIES if path.is_dir() else OF_FILES)
        detail = mutation(path, random)
        if detail is not None:
            return Damaged(mutation.__name__, kind, path, detail)
