"""What a user can do wrong with the source."""


class SourceError(ValueError):
    """Options or a directory that cannot be read as a log; the text says what was expected."""
