"""PySpark jobs over the coordinator's log: who rebalanced, why, and what it cost."""
