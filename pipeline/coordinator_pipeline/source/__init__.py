"""Spark's data source `coordinator_log`: the log's directories, or a server that is asked."""
