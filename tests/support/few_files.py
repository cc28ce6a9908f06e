"""`python -m tests.support.few_files LIMIT run ...`: the server, with that many open files."""

import resource
import sys

from coordinator_server.cli.main import main

if __name__ == "__main__":
    limit = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    main()
