"""What a user can do wrong, and how a run can end."""


class PipelineError(Exception):
    """Cannot go on; the text names the value and says what was expected."""


class WrongArguments(PipelineError):
    """What was given makes no sense, whatever is on the disk."""
