"""Attacks a server and measures what others notice: `make abuse`.

Every attack has a server of its own with default settings, 20 members of 5 groups that heartbeat
every 50 ms, and bounds in count, bytes and seconds. Exit code 1 if a limit is broken.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from benchmarks.servers import COMPILED, COMPILED_MADE, ROOT
from tests.abuse.attack import Attack
from tests.abuse.attacks.all import ATTACKS
from tests.abuse.bench import Bench, Options, Outcome, may_raise_priority, two_cores
from tests.abuse.report import (
    Limits,
    default_memory_bytes,
    detail,
    is_disturbed,
    machine,
    problems,
    rendered,
    with_table,
)

ATTEMPTS: Final = 3
"""At measuring an attack on a machine that other work disturbs."""


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.abuse", description=__doc__)
    parser.add_argument(
        "--attack", action="append", metavar="NAME", help="part of a name; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="of every attack")
    parser.add_argument("--compiled", action="store_true", help="attack what `make compiled` made")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--write", type=Path, help="put the table of all into this page")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    options = parser.parse_args()
    if options.write and options.attack:
        parser.error("--write takes the table of all attacks: leave out --attack")
    return options


def chosen(parts: Sequence[str] | None) -> list[Attack]:
    """Return the attacks whose names contain any of the parts. Raises SystemExit for others."""
    if not parts:
        return list(ATTACKS.values())
    found = [each for name, each in ATTACKS.items() if any(part in name for part in parts)]
    if not found:
        sys.exit(f"error: no attack is named like {parts}: {', '.join(ATTACKS)}")
    return found


def use_compiled() -> None:
    """Have every process import the compiled modules."""
    if not COMPILED_MADE.exists():
        sys.exit("error: there is no compiled server: `make compiled` builds it")
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PYTHONPATH"] = f"{COMPILED}{os.pathsep}{ROOT}"


def say(text: str, stream: TextIO = sys.stderr) -> None:
    """Print a result, or progress, which is no part of it."""
    print(text, file=stream, flush=True)


def measured(bench: Bench, attack: Attack, limits: Limits) -> Outcome | None:
    """Return what an attack did; None if the server does not start.

    A limit that is broken while other work disturbs the machine is looked at again.
    """
    outcome = None
    for _ in range(ATTEMPTS):
        try:
            outcome = bench.run(attack)
        except (OSError, RuntimeError) as error:
            say(f"{attack.name}: not measured: {error}")
            continue
        broken = problems(outcome, limits)
        say(f"{attack.name}: {'; '.join(broken) or 'held'}\n    {detail(outcome)}")
        if not broken or not is_disturbed(outcome):
            break
    return outcome


def main() -> int:
    """Attack and print."""
    options = parsed()
    if options.list:
        lines = [f"{each.name:26} {each.about}" for each in ATTACKS.values()]
        say("\n".join(lines), sys.stdout)
        return 0
    if options.compiled:
        use_compiled()
    # So that the processes of an attack do not outlive this one, and what was measured is printed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limits = Limits(memory_bytes=default_memory_bytes())
    first = may_raise_priority()
    if not first:
        say("priorities cannot be raised: other work on the machine counts as the server's")
    bench = Bench(
        Options(
            cores=two_cores(),
            loop=options.loop,
            server_priority=-10 if first else 0,
            observer_priority=-15 if first else 0,
            ceiling_bytes=2 * limits.memory_bytes,
            seconds=options.seconds,
        )
    )
    attacks = chosen(options.attack)
    outcomes: list[Outcome] = []
    try:
        outcomes.extend(found for each in attacks if (found := measured(bench, each, limits)))
    except KeyboardInterrupt:
        say("interrupted: the other attacks were not measured")
    held_count = sum(not problems(outcome, limits) for outcome in outcomes)
    variant = f"{options.loop}{', compiled' if options.compiled else ''}"
    held = f"{held_count} of {len(attacks)} attacks held."
    result = "\n\n".join((f"{machine()}; {variant}.", rendered(outcomes, limits), held))
    say(result, sys.stdout)
    if options.write and len(outcomes) == len(attacks):
        options.write.write_text(with_table(options.write.read_text(), result))
    return 0 if held_count == len(attacks) else 1


if __name__ == "__main__":
    sys.exit(main())
