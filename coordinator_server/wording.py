"""How errors of the system are told to people."""


def words(error: Exception) -> str:
    """What an operator reads of it: no numbers of the system's errors."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
