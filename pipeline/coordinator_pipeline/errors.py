"""What a user can do wrong, and how a run can end."""


class PipelineError(Exception):
    """Cannot go on; the text names the value and says what was expected."""


class WrongArguments(PipelineError):
    """What was given makes no sense, whatever is on the disk."""


def without_extra(error: ModuleNotFoundError) -> str:
    """A line for somebody who has this project without what the pipeline needs.

    Raises:
        ModuleNotFoundError: it is a module of this project.
    """
    if error.name is None or error.name.startswith("pipeline"):
        raise error
    return f"no module {error.name!r}: the pipeline needs the extra `pipeline` of this project"
