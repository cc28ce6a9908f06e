"""The callback with which the storage writes log events."""

from collections.abc import Callable

Report = Callable[..., None]
"""`report(event, **fields)` writes one log event."""
