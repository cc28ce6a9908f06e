"""The errors that the command line reports in one line."""


class PipelineError(Exception):
    """The command failed; the text names the value and says what was expected."""


class WrongArguments(PipelineError):
    """The arguments contradict each other or have wrong values; the exit code is 2."""


def without_extra(error: ModuleNotFoundError) -> str:
    """Return the message for an installation without the extra `pipeline`.

    Raises:
        ModuleNotFoundError: the missing module belongs to this project.
    """
    if error.name is None or error.name.startswith("coordinator_"):
        raise error
    return (
        f"the module {error.name!r} is not installed: "
        "install this project with its extra, pip install '.[pipeline]'"
    )
