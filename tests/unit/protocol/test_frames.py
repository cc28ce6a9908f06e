"""Frames out of chunks of any size."""

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.frames import FrameError, FrameSplitter, framed

LIMIT = 1000
bodies = st.lists(st.binary(max_size=40), max_size=8)


def contents(splitter: FrameSplitter, chunk: bytes) -> list[bytes]:
    return [buffer[start:end] for buffer, start, end in splitter.feed(chunk)]


@given(bodies=bodies, cuts=st.lists(st.integers(0, 400), max_size=10))
def test_the_same_frames_come_out_however_the_stream_is_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(framed(body) for body in bodies)
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    splitter = FrameSplitter(LIMIT)
    found: list[bytes] = []
    for begin, end in pairwise(places):
        found += contents(splitter, stream[begin:end])
    assert found == bodies
    assert splitter.buffered == 0


@given(bodies=bodies)
def test_frames_come_out_byte_by_byte(bodies: list[bytes]) -> None:
    splitter = FrameSplitter(LIMIT)
    stream = b"".join(framed(body) for body in bodies)
    found = [contents(splitter, stream[at : at + 1]) for at in range(len(stream))]
    assert list(chain(*found)) == bodies


def test_whole_frames_are_not_copied() -> None:
    chunk = framed(b"one") + framed(b"two") + b"\0\0"
    splitter = FrameSplitter(LIMIT)
    frames = splitter.feed(chunk)
    assert [(start, end) for _, start, end in frames] == [(4, 7), (11, 14)]
    assert all(buffer is chunk for buffer, _, _ in frames)
    rest = b"\0\x03six" + framed(b"ten")
    frames = splitter.feed(rest)
    assert frames == [(rest, 2, 5), (rest, 9, 12)]
    assert all(buffer is rest for buffer, _, _ in frames)


def test_an_incomplete_frame_is_counted() -> None:
    splitter = FrameSplitter(LIMIT)
    sizes = []
    for byte in framed(b"four"):
        splitter.feed(bytes([byte]))
        sizes.append(splitter.buffered)
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 0]


def test_an_empty_frame_is_a_frame() -> None:
    assert contents(FrameSplitter(LIMIT), framed(b"") + framed(b"x")) == [b"", b"x"]


def test_nothing_in_is_nothing_out() -> None:
    assert FrameSplitter(LIMIT).feed(b"") == []


def test_the_largest_frame_passes() -> None:
    assert contents(FrameSplitter(LIMIT), framed(b"x" * LIMIT)) == [b"x" * LIMIT]


@pytest.mark.parametrize(
    ("length", "what"),
    [
        (b"\0\0\x03\xe9", "a frame of 1001 bytes: larger than 1000 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes: lengths are not negative"),
        (b"GET ", "a frame of 1195725856 bytes: larger than 1000 bytes"),
    ],
)
def test_an_impossible_length_is_refused_at_once(length: bytes, what: str) -> None:
    with pytest.raises(FrameError, match=what):
        FrameSplitter(LIMIT).feed(length)
    byte_by_byte = FrameSplitter(LIMIT)
    for byte in length[:3]:
        assert byte_by_byte.feed(bytes([byte])) == []
    with pytest.raises(FrameError, match=what):
        byte_by_byte.feed(length[3:])


def test_frames_before_an_impossible_length_are_not_lost() -> None:
    splitter = FrameSplitter(LIMIT)
    splitter.feed(framed(b"one")[:5])
    chunk = framed(b"one")[5:] + framed(b"two") + b"\xff\xff\xff\xfe more"
    with pytest.raises(FrameError) as caught:
        splitter.feed(chunk)
    assert [buffer[start:end] for buffer, start, end in caught.value.frames] == [b"one", b"two"]
    assert (caught.value.size, caught.value.limit) == (-2, LIMIT)


def test_a_large_frame_is_collected_from_many_chunks() -> None:
    body = bytes(range(256)) * 4096
    stream = framed(body) + framed(b"next")
    splitter = FrameSplitter(1 << 21)
    found = []
    for at in range(0, len(stream), 1000):
        found += contents(splitter, stream[at : at + 1000])
    assert found == [body, b"next"]


def test_no_more_frames_than_asked_for_are_taken_from_a_chunk() -> None:
    splitter = FrameSplitter(LIMIT)
    chunk = b"".join(framed(bytes([number])) for number in range(5))[:-1]
    at, taken = 0, []
    while True:
        frames = splitter.feed(chunk, at, 2)
        taken.append([chunk[start:end] for _, start, end in frames])
        at = splitter.at
        if not at:
            break
    assert taken == [[b"\0", b"\1"], [b"\2", b"\3"], []]
    assert splitter.is_amid
    ((buffer, start, end),) = splitter.feed(b"\4")
    assert buffer[start:end] == b"\4"
