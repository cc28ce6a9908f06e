"""Log lines about requests and sessions, of which a client must not cause too many."""

from coordinator_server.loop.task_keeper import origin
from coordinator_server.net.session_call import SessionCall
from coordinator_server.observe.line_limit import LineLimiter
from coordinator_server.ports import Caller


def report_failed(lines: LineLimiter, call: SessionCall, bug: BaseException) -> None:
    """Report that a handler, or the encoding of its response, has raised."""
    where = origin(bug)
    lines.report(
        "request_failed",
        where,
        call.caller.host,
        api=call.route.api.key.name,
        version=call.version,
        client_id=call.caller.client_id,
        error=repr(bug),
        where=where,
    )


def report_too_large(lines: LineLimiter, call: SessionCall, limit: str, **found: int) -> None:
    """Report that a request is refused because of a limit, and what of it is known."""
    api = call.route.api.key.name
    lines.report(
        "request_too_large",
        api,
        call.caller.host,
        api=api,
        client_id=call.caller.client_id,
        **found,
        limit=limit,
    )


def report_broken(lines: LineLimiter, caller: Caller, error: BaseException) -> None:
    """Report that serving a session has raised."""
    where = origin(error)
    lines.report(
        "connection_failed",
        where,
        caller.host,
        listener=caller.listener,
        error=repr(error),
        where=where,
    )
