"""Bugs in a word: a log has one line per event."""


def origin(bug: BaseException) -> str:
    """Where it was raised: file and line."""
    trace = bug.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
