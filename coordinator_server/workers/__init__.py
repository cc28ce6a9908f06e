"""Several processes on one data directory: a supervisor and workers, each a broker to clients.

The supervisor locks the data directory, binds all listening sockets, starts the workers, sends the
topics of the first worker to the others and serves HTTP for all. A worker is a complete server for
a share of the partitions.
"""
