"""Splits a stream of bytes into length-prefixed frames, without any input or output of its own."""

from io import BytesIO
from struct import Struct
from typing import Final

Frame = tuple[bytes, int, int]
"""A buffer, and where in it a frame begins and ends, the length not included."""

_SIZE: Final = Struct(">i")
SIZE_BYTES: Final = _SIZE.size
"""Of a frame's length."""
UNBOUNDED: Final = 1 << 62
_size_of: Final = _SIZE.unpack_from


class FrameError(ValueError):
    """A length that no frame can have; what follows it in the stream cannot be understood.

    Attributes:
        size: the length that was announced.
        limit: the largest allowed.
        frames: the complete frames before it, still to be served.
    """

    def __init__(self, size: int, limit: int, frames: list[Frame]) -> None:
        expected = "lengths are not negative" if size < 0 else f"larger than {limit} bytes"
        super().__init__(f"a frame of {size} bytes: {expected}")
        self.size = size
        self.limit = limit
        self.frames = frames


class FrameSplitter:
    """Cuts received chunks into frames.

    A frame that lies whole in a chunk is not copied; of an incomplete one the bytes so far are
    kept. As in Kafka, a frame of 0 bytes is a frame: it is its missing header that ends the
    connection.
    """

    __slots__ = ("_collected", "_max_bytes", "_missing", "_prefix", "at", "completed", "is_amid")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._prefix = b""
        self._collected: BytesIO | None = None
        self._missing = 0
        self.is_amid = False
        """Whether the next chunk begins within a frame."""
        self.completed = 0
        """The number of frames that arrived in pieces and are complete."""
        self.at = 0
        """The position in the last chunk behind the frames asked for; 0 if it had no more."""

    @property
    def buffered(self) -> int:
        """The bytes kept of an incomplete frame, its length included."""
        return len(self._prefix) + (0 if self._collected is None else 4 + self._collected.tell())

    @property
    def announced(self) -> int:
        """Size of the incomplete frame, 0 without one or before its length is known."""
        return 0 if self._collected is None else self._collected.tell() + self._missing

    def drop(self) -> None:
        """Forget the incomplete frame; the splitter is of no use after."""
        self._prefix, self._collected = b"", None

    def feed(self, data: bytes, at: int = 0, most: int = UNBOUNDED) -> list[Frame]:
        """The frames that are complete with this chunk, taken from `at` on.

        If there are more than `most` of them, `self.at` is where the rest begins, which has to be
        fed next; otherwise it is 0.

        Raises:
            FrameError: a length is negative or above the limit. The splitter is of no use after.
        """
        frames: list[Frame] = []
        self.at = 0
        if self.is_amid:
            at = self._resume(data, frames)
        available = len(data)
        while available - at >= 4:
            if len(frames) >= most:
                self.at = at
                return frames
            size: int = _size_of(data, at)[0]
            if not 0 <= size <= self._max_bytes:
                raise FrameError(size, self._max_bytes, frames)
            at += 4
            if size > available - at:
                self._collect(data[at:], size)
                return frames
            frames.append((data, at, at + size))
            at += size
        if at < available:
            self._prefix = data[at:]
            self.is_amid = True
        return frames

    def _collect(self, beginning: bytes, size: int) -> None:
        self.is_amid = True
        self._collected = BytesIO()
        self._collected.write(beginning)
        self._missing = size - len(beginning)

    def _resume(self, data: bytes, frames: list[Frame]) -> int:
        """Go on with the incomplete frame; returns how far that took us in the chunk."""
        if self._collected is None:
            return self._resume_prefix(data, frames)
        taken = data[: self._missing]
        self._collected.write(taken)
        self._missing -= len(taken)
        if not self._missing:
            frame = self._collected.getvalue()
            self._collected = None
            self.is_amid = False
            self.completed += 1
            frames.append((frame, 0, len(frame)))
        return len(taken)

    def _resume_prefix(self, data: bytes, frames: list[Frame]) -> int:
        at = 4 - len(self._prefix)
        self._prefix += data[:at]
        if len(self._prefix) < 4:
            return len(data)
        size: int = _size_of(self._prefix)[0]
        self._prefix = b""
        if not 0 <= size <= self._max_bytes:
            raise FrameError(size, self._max_bytes, frames)
        if size > len(data) - at:
            self._collect(data[at:], size)
            return len(data)
        self.is_amid = False
        self.completed += 1
        frames.append((data, at, at + size))
        return at + size


def framed(body: bytes) -> bytes:
    """A frame with its length."""
    return _SIZE.pack(len(body)) + body
