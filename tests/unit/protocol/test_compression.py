"""What clients have compressed is read within a bound, or refused."""

from collections.abc import Callable
from typing import Any

import cramjam
import pytest

from coordinator_protocol.compression import GZIP, LZ4, SNAPPY, ZSTD, decompress
from coordinator_protocol.errors import Malformed

PACK: dict[int, Callable[[bytes], Any]] = {
    GZIP: cramjam.gzip.compress,
    SNAPPY: cramjam.snappy.compress_raw,
    LZ4: cramjam.lz4.compress,
    ZSTD: cramjam.zstd.compress,
}
XERIAL = b"\x82SNAPPY\0" + bytes((0, 0, 0, 1, 0, 0, 0, 1))


def xerial(*blocks: bytes) -> bytes:
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return XERIAL + b"".join(len(block).to_bytes(4, "big") + block for block in packed)


@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("size", [1, 1_000, 70_000, 3_000_000])
def test_plain_bytes_come_back(codec: int, size: int) -> None:
    plain = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert decompress(codec, bytes(PACK[codec](plain)), size) == plain


@pytest.mark.parametrize("codec", PACK)
def test_a_bomb_is_refused_before_it_fills_the_memory(codec: int) -> None:
    bomb = bytes(PACK[codec](bytes(20_000_000)))
    with pytest.raises(Malformed, match="100000"):
        decompress(codec, bomb, 100_000)


def test_blocks_of_the_xerial_library_are_joined() -> None:
    assert decompress(SNAPPY, xerial(b"a" * 100, b"", b"b" * 9), 1_000) == b"a" * 100 + b"b" * 9


def test_a_bomb_of_many_xerial_blocks_is_refused() -> None:
    with pytest.raises(Malformed, match="1000"):
        decompress(SNAPPY, xerial(*[bytes(600)] * 2), 1_000)


@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("body", [b"", b"nonsense", b"\xff" * 100])
def test_nonsense_is_malformed(codec: int, body: bytes) -> None:
    with pytest.raises(Malformed):
        decompress(codec, body, 1_000)


@pytest.mark.parametrize("codec", PACK)
def test_a_stream_cut_off_is_malformed(codec: int) -> None:
    packed = bytes(PACK[codec](b"some plain bytes " * 50))
    for size in range(0, len(packed) - 1, 7):
        with pytest.raises(Malformed):
            decompress(codec, packed[:size], 10_000)


@pytest.mark.parametrize("cut", [17, 18, 19, 21])
def test_a_xerial_block_cut_off_is_malformed(cut: int) -> None:
    with pytest.raises(Malformed):
        decompress(SNAPPY, xerial(b"a" * 100)[:cut], 1_000)


@pytest.mark.parametrize("codec", [0, 5, 6, 7])
def test_unknown_codecs_are_malformed(codec: int) -> None:
    with pytest.raises(Malformed, match=f"compression {codec}"):
        decompress(codec, b"", 1_000)
