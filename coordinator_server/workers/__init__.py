"""Several processes on one data directory: a supervisor, and workers that are brokers to clients.

The supervisor holds the data directory and all listening sockets, starts the workers, hands the
topics of the first one to the others, and serves HTTP for all. A worker is the whole server over a
share of the partitions.
"""
