"""PySpark jobs that turn the coordinator's log into tables of rebalances, commits and lag."""
