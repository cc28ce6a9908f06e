"""`python -m coordinator_server`: the same as the command `coordinator-server`."""

from coordinator_server.cli import main

main()
