"""Reads the numbers at many positions of a buffer in one numpy step."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

TOO_LONG: Final = -(1 << 62)
"""Stands for a varint of more than nine bytes."""
_PADDING: Final = bytes(16)
"""Lets a number of up to eight bytes be read at any position of the buffer."""


class ByteBuffer:
    """Reads numbers at many positions of a buffer; positions outside it give arbitrary numbers."""

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        padded = buffer + _PADDING
        size = len(buffer) + 1
        self._last = len(buffer)
        self._uint8 = np.frombuffer(padded, np.uint8)
        self._int16 = np.ndarray(size, ">i2", padded, strides=(1,))
        self._int32 = np.ndarray(size, ">i4", padded, strides=(1,))
        self._int64 = np.ndarray(size, ">i8", padded, strides=(1,))

    def __len__(self) -> int:
        return len(self.buffer)

    def uint8(self, at: Ints) -> Ints:
        """Read unsigned numbers of one byte."""
        return self._uint8.take(at, mode="clip").astype(np.int64)

    def int16(self, at: Ints) -> Ints:
        """Read signed numbers of two bytes."""
        return self._int16[np.clip(at, 0, self._last)].astype(np.int64)

    def int32(self, at: Ints) -> Ints:
        """Read signed numbers of four bytes."""
        return self._int32[np.clip(at, 0, self._last)].astype(np.int64)

    def int64(self, at: Ints) -> Ints:
        """Read signed numbers of eight bytes."""
        return self._int64[np.clip(at, 0, self._last)].astype(np.int64)

    def uvarints(self, at: Ints) -> tuple[Ints, Ints]:
        """Read unsigned varints and the positions after them; TOO_LONG above nine bytes."""
        number = self.uint8(at)
        behind = at + 1
        more = np.flatnonzero(number > 0x7F)
        if more.size:
            number[more] &= 0x7F
            self._continue(number, behind, more)
        return number, behind

    def _continue(self, number: Ints, behind: Ints, more: Ints) -> None:
        for shift in range(7, 63, 7):
            byte = self.uint8(behind[more])
            behind[more] += 1
            number[more] |= (byte & 0x7F) << shift
            more = more[byte > 0x7F]
            if not more.size:
                return
        number[more] = TOO_LONG

    def varints(self, at: Ints) -> tuple[Ints, Ints]:
        """Read zigzag varints and the positions after them; TOO_LONG above nine bytes."""
        number, behind = self.uvarints(at)
        return np.where(number == TOO_LONG, TOO_LONG, (number >> 1) ^ -(number & 1)), behind
