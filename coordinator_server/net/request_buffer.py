"""The requests that a connection has received and that are not answered yet.

One is in progress, complete ones wait behind it, and the last may have come in part.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from coordinator_protocol.frames import SIZE_BYTES, Frame, FrameError, FrameSplitter
from coordinator_server.net.memory import UNCOUNTED

if TYPE_CHECKING:
    from coordinator_server.net.session_call import SessionCall

SPLIT_AT_ONCE: Final = 64
"""Requests of a chunk that are split from it together.

What is known of a request takes several times the bytes of a small one: a chunk of 256 KB may have
ten thousand. The rest of it stays as it came until these have been served.
"""

DROPPED_AT_ONCE: Final = 8 * SPLIT_AT_ONCE
"""Requests of a client that has gone that are dropped together, for about 0.2 ms."""

_FEW: Final = 4_096
"""Bytes of a chunk that has not many requests."""

READ_AHEAD: Final = 65_536
"""Bytes that are taken from the network behind a request that is not answered yet."""


class RequestBuffer:
    """Splits received bytes into requests and keeps those that wait.

    The session inherits from it: every request needs most of these fields.
    """

    __slots__ = (
        "_behind",
        "_broken",
        "_building",
        "_held",
        "_kept_keys",
        "_splitter",
        "_unsplit",
        "_waiting",
        "current",
        "ended",
        "is_congested",
        "is_held_back",
    )

    def __init__(self, max_request_bytes: int) -> None:
        self.current: SessionCall | None = None
        """The request in progress."""
        self.ended: str | None = None
        """Why nothing more is served, in a word; what has been answered is still to be sent."""
        self.is_congested = False
        """Set while the client does not read: no request is begun then."""
        self.is_held_back = False
        """Set when the next request was not begun because the memory budget is full."""
        self._splitter = FrameSplitter(max_request_bytes)
        self._waiting: deque[Frame] = deque()
        """Empty only if nothing is left of `_unsplit`, either, unless the client has gone."""
        self._unsplit: deque[tuple[bytes, int]] = deque()
        """Chunks behind those, and where in each the part begins that has not been split."""
        self._kept_keys: frozenset[bytes] | None = None
        """API keys, as in a frame, of the only requests that are served; None: all are."""
        self._behind = 0
        """Bytes that have come and belong to no request begun so far: those of the frames that
        wait and of the one that is incomplete."""
        self._held = 0
        """Estimate of the bytes of the request in progress; 0 of a small one."""
        self._building = 0
        """Bytes of its response so far, while that is encoded in several turns."""
        self._broken: FrameError | None = None
        """The error of the bytes behind the waiting requests."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in progress, and nothing waits."""
        return self.current is None and not self._waiting and not self._unsplit

    @property
    def is_ready(self) -> bool:
        """Whether `proceed` has something to do."""
        if self.is_congested:
            return False
        return self.current is None if self._waiting else bool(self._unsplit)

    @property
    def is_light(self) -> bool:
        """Whether nothing waits or is held back, and too little is held to be counted.

        So `is_ready` is False, `wants_more` is True, and the memory budget need not be told.
        """
        held = self._behind + self._held + self._building
        return held <= UNCOUNTED and not self._waiting and not self.is_congested

    @property
    def held(self) -> int:
        """Bytes of the requests that are here, those of small requests in progress left out.

        Those of a response that is being encoded are included.
        """
        return self._behind + self._held + self._building

    @property
    def is_building(self) -> bool:
        """Whether a response is being encoded in several turns."""
        return self._building > 0

    @property
    def announced(self) -> int:
        """Size of the next request, if it is incomplete and nothing is before it."""
        splitter = self._splitter
        return splitter.announced if splitter.is_amid and self.is_idle else 0

    @property
    def completed(self) -> int:
        """The number of frames that arrived in pieces and are complete."""
        return self._splitter.completed

    @property
    def is_amid(self) -> bool:
        """Whether a part of a frame has come."""
        return self._splitter.is_amid

    @property
    def wants_more(self) -> bool:
        """Whether the connection may go on reading."""
        is_behind = self.current is not None or bool(self._waiting)
        return not self.is_congested and not (is_behind and self._behind > READ_AHEAD)

    @property
    def _is_at_rest(self) -> bool:
        """Whether a chunk begins with a request that may be served at once."""
        return not (
            self.current is not None
            or self._waiting
            or self.is_congested
            or self.ended
            or self._splitter.is_amid
        )

    def _feed(self, data: bytes) -> None:
        self._behind += len(data)
        if self._waiting or len(data) > _FEW:
            self._unsplit.append((data, 0))
            if not self._waiting:
                self._split()
            return
        try:
            self._waiting.extend(self._splitter.feed(data))
        except FrameError as error:
            self._waiting.extend(error.frames)
            self._broken = error

    def _split(self) -> None:
        """Split the next requests from the chunks that have come.

        Of a client that has gone there may be none among those looked at, and more behind them.
        """
        unsplit, waiting, dropped = self._unsplit, self._waiting, 0
        while unsplit and not waiting and dropped < DROPPED_AT_ONCE:
            data, at = unsplit.popleft()
            try:
                frames = self._splitter.feed(data, at, SPLIT_AT_ONCE)
            except FrameError as error:
                frames, self._broken = error.frames, error
                unsplit.clear()
            else:
                if self._splitter.at:
                    unsplit.appendleft((data, self._splitter.at))
            waiting.extend(self._kept(frames))
            if self._kept_keys is not None:
                # A chunk may be as small as one byte.
                dropped += max(len(frames), 1)
        if self._kept_keys is not None and not unsplit:
            self._drop_incomplete()

    def _drop_incomplete(self) -> None:
        """Forget the incomplete frame, whose rest is not going to come."""
        self._behind -= self._splitter.buffered
        self._splitter.drop()

    def _kept(self, frames: list[Frame]) -> list[Frame]:
        keys = self._kept_keys
        if keys is None:
            return frames
        kept = []
        for frame in frames:
            buffer, start, end = frame
            if buffer[start : start + 2] in keys:
                kept.append(frame)
            else:
                self._behind -= end - start + SIZE_BYTES
        return kept

    def _keep_only(self, api_keys: frozenset[bytes]) -> None:
        """Drop all requests that wait, but for those of some API keys; nothing more comes.

        What has not been split is left to `proceed`: hundreds of connections may be reset in one
        turn of the event loop, each with thousands of requests.
        """
        self._kept_keys = api_keys
        kept = self._kept([*self._waiting])
        self._waiting.clear()
        self._waiting.extend(kept)
        if not self._unsplit:
            self._drop_incomplete()

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._unsplit.clear()
