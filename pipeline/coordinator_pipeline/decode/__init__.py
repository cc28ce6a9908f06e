"""Decodes record batches of the coordinator's log into Arrow columns."""
