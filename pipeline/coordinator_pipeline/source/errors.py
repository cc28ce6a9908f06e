"""The error of the data source."""


class SourceError(ValueError):
    """The log cannot be read; the text names the option or file and says what was expected."""
