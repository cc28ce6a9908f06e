"""Requests and responses, one module per API, written by `tools/generate_messages.py`.

Each class is the union of all its versions; a field's `since` and `until` say where it is on the wire.
`coordinator_protocol.codec` imports a module when its API is first used.
"""
