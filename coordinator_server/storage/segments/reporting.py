"""How the storage tells what happens."""

from collections.abc import Callable

Report = Callable[..., None]
"""Called as `report(event, **fields)` for the log."""
