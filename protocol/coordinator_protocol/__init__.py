"""Kafka's wire format: frames, headers, requests and responses, records.

Nothing here waits, opens or logs anything, and nothing here imports the rest of the project.
"""
