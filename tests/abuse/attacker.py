"""Runs one attack as a process: `python -m tests.abuse.attacker NAME PORT HTTP_PORT PID SECONDS`.

Prints counts of what it sent as JSON.
"""

import argparse
import json
import resource

from tests.abuse.attacks.all import ATTACKS
from tests.abuse.client import Target
from tests.abuse.placing import place


def main() -> None:
    """Attack. A server that closes connections or is gone ends an attack early, and well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(ATTACKS))
    parser.add_argument("port", type=int)
    parser.add_argument("http_port", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--core", type=int)
    parser.add_argument("--priority", type=int, default=0)
    options = parser.parse_args()
    place(options.core, options.priority)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    target = Target(options.port, options.http_port, options.pid, options.seconds)
    try:
        ATTACKS[options.name].run(target)
    except OSError as error:
        target.done[f"ended by {type(error).__name__}"] = 1
    print(json.dumps(target.done))  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main()
