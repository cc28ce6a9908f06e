"""Single fields of a request, read where a handler knows their places.

The functions read the usual form only: others are left to the decoder of the whole message. They
may read beyond the request, which its handler notices when it is done.
"""

from struct import Struct
from typing import Final

_size: Final = Struct(">h").unpack_from


def short_text(buffer: bytes, at: int) -> tuple[str, int]:
    """A compact string whose length is one byte, and the position behind it.

    Raises IndexError at the end of the buffer, ValueError for null and for anything unusual.
    """
    size = buffer[at]
    if not 0 < size < 0x80:
        raise ValueError("null, or longer than 126 bytes")
    end = at + size
    return buffer[at + 1 : end].decode(), end


def plain_text(buffer: bytes, at: int) -> tuple[str, int]:
    """A string with a length of two bytes, and the position behind it.

    Raises struct.error at the end of the buffer, ValueError for null and for anything unusual.
    """
    size: int = _size(buffer, at)[0]
    if size < 0:
        raise ValueError("null")
    at += 2
    end = at + size
    return buffer[at:end].decode(), end
