"""Scheduling of work on the event loop: batches, time slices, tasks and deadlines."""
