"""Errors that the server is told to answer instead of doing what it is asked."""

from collections import defaultdict, deque

from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode


class Faults:
    """Errors to answer with, by API, each for the next request."""

    def __init__(self) -> None:
        self._planned: defaultdict[int, deque[ErrorCode]] = defaultdict(deque)

    def plan(self, api: str, error: str, times: int = 1) -> None:
        """Let the next `times` requests of an API fail, after those already planned.

        Args:
            api: Kafka's name of the API, such as `JoinGroup` or `JOIN_GROUP`.
            error: Kafka's name of the error, such as `NOT_COORDINATOR`.
            times: how many requests fail.

        Raises:
            ValueError: for a name that does not exist, or fewer than one time.
        """
        if times < 1:
            raise ValueError(f"times={times}: expected 1 or more")
        self._planned[_api_key(api)].extend([_error_code(error)] * times)

    def take(self, api_key: int) -> ErrorCode | None:
        """The error to answer the coming request of this API with, if one is planned."""
        planned = self._planned.get(api_key)
        return planned.popleft() if planned else None

    @property
    def pending(self) -> int:
        """How many planned errors have not been answered yet."""
        return sum(map(len, self._planned.values()))

    def clear(self) -> None:
        """Forget everything that is planned."""
        self._planned.clear()


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _api_key(name: str) -> int:
    for key in ApiKey:
        if _plain(key.name) == _plain(name):
            return key
    raise ValueError(f"api={name!r}: expected the name of an API, such as JoinGroup")


def _error_code(name: str) -> ErrorCode:
    for code in ErrorCode:
        if code.name == name.upper() and code is not ErrorCode.NONE:
            return code
    raise ValueError(f"error={name!r}: expected the name of an error, such as NOT_COORDINATOR")
