"""A coordinator for tests: real sockets, a clock the test moves, faults on demand."""
