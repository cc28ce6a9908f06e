"""Record batches of the coordinator's log to Arrow."""
