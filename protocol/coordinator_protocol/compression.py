"""Decompresses the records of batches, never into more bytes than allowed.

The library is imported with the first such batch: most servers never see one.
"""

from collections.abc import Iterator
from typing import Final

from coordinator_protocol.errors import Malformed

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS: Final = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_FIRST_GUESS: Final = 64 * 1024
_TOO_SMALL: Final = "failed to write whole buffer"
"""The library's message for a buffer that is too small."""


def decompress(codec: int, body: bytes, max_bytes: int) -> bytes:
    """The plain bytes. Raises Malformed for an unknown codec, nonsense, or too many bytes."""
    import cramjam

    if codec == SNAPPY:
        return _unsnappy(body, max_bytes)
    if codec not in CODECS:
        raise Malformed(f"compression {codec}, expected one of {CODECS}")
    decompress_into = getattr(cramjam, CODECS[codec]).decompress_into
    size = min(max(_FIRST_GUESS, 4 * len(body)), max_bytes)
    while True:
        plain = bytearray(size)
        try:
            return bytes(memoryview(plain)[: decompress_into(body, plain)])
        except cramjam.DecompressionError as error:
            # Growing for nonsense would let a few bytes of it take all the memory allowed.
            if _TOO_SMALL not in str(error):
                raise Malformed(f"{CODECS[codec]}: {error}") from error
            if size >= max_bytes:
                raise Malformed(
                    f"{CODECS[codec]}: more than the {max_bytes} bytes that are taken"
                ) from error
        size = min(size * 4, max_bytes)


def _unsnappy(body: bytes, max_bytes: int) -> bytes:
    """Raw snappy, or the blocks of the xerial library that Java clients write."""
    import cramjam

    blocks = list(_xerial_blocks(body)) if body.startswith(_XERIAL) else [body]
    try:
        size = sum(cramjam.snappy.decompress_raw_len(block) for block in blocks)
        if size > max_bytes:
            raise Malformed(f"snappy: {size} bytes, at most {max_bytes} are taken")
        return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)
    except cramjam.DecompressionError as error:
        raise Malformed(f"snappy: {error}") from error


def _xerial_blocks(body: bytes) -> Iterator[bytes]:
    at = _XERIAL_HEADER_BYTES
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        at += 4
        if at + size > len(body):
            raise Malformed(f"snappy: a block of {size} bytes, {len(body) - at} are there")
        yield body[at : at + size]
        at += size
