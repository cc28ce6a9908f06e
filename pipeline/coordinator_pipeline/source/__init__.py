"""Spark's data source `coordinator_log`, over the log's directories or over Fetch."""
