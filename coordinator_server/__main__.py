"""`python -m coordinator_server`: the same as the command `coordinator-server`."""

from coordinator_server.cli.main import main

main()
