"""Hands results to tokens: exactly once, and without ever raising."""

import asyncio
from asyncio import CancelledError
from contextlib import suppress

from coordinator_server.group.effects import Result
from coordinator_server.group.rebalance_events import brief
from coordinator_server.runtime.ticket import Ticket


def resolve(token: object, result: Result) -> None:
    """Answer a token. A failure at its end must not keep others from their answers."""
    if isinstance(token, Ticket):
        try:
            token.resolve(result)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - see _not_delivered
            _not_delivered(token, result, error)


def refuse(token: object, result: Result) -> None:
    """Answer a token that may have been answered; events such as Tick have none."""
    if isinstance(token, Ticket) and token.is_pending:
        resolve(token, result)


def _not_delivered(token: Ticket, result: Result, error: BaseException) -> None:
    """Tell the token of the failure; else the handler of the event loop, which logs it."""
    bug = error if isinstance(error, Exception) else RuntimeError(repr(error))
    with suppress(Exception, CancelledError):
        if token.failed(bug):
            return
    with suppress(Exception, CancelledError):
        message = f"an answer was not delivered: {brief(str(result))}"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": bug})
