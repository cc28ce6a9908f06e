"""Runs the server with a limit of open files: arguments are LIMIT and a server command."""

import resource
import sys

from coordinator_server.cli.main import main

if __name__ == "__main__":
    limit = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    main()
