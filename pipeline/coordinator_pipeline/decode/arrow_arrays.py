"""Converts numpy arrays of positions and numbers into Arrow arrays."""

import numpy as np
import pyarrow as pa

from coordinator_pipeline.decode.byte_arrays import ByteBuffer, Flags, Ints
from coordinator_pipeline.decode.row_decoder import EARLIEST_MS, LATEST_MS


def _bitmap(valid: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def numbers(values: Ints, kind: pa.DataType, valid: Flags | None = None) -> pa.Array:
    """Convert numbers; null where not `valid`."""
    mask = None if valid is None or valid.all() else ~valid
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), kind, mask=mask)


def times(millis: Ints, kind: pa.DataType, valid: Flags | None = None) -> pa.Array:
    """Convert milliseconds; null for -1 and outside EARLIEST_MS to LATEST_MS."""
    known = (millis != -1) & (millis >= EARLIEST_MS) & (millis <= LATEST_MS)
    if valid is not None:
        known &= valid
    micros = np.where(known, millis, 0) * 1000
    return pa.array(micros, pa.int64(), mask=None if known.all() else ~known).cast(kind)


def blobs(data: ByteBuffer, at: Ints, size: Ints, valid: Flags | None = None) -> pa.Array:
    """Copy the bytes at positions; null where the size is negative or not `valid`.

    All values of one size are copied in one step: the texts of a log have few different sizes.
    """
    valid = size >= 0 if valid is None else valid & (size >= 0)
    size = np.where(valid, size, 0)
    ends = np.zeros(len(at) + 1, np.int32)
    np.cumsum(size, out=ends[1:])
    copied = np.empty(int(ends[-1]), np.uint8)
    order = np.argsort(size, kind="stable")
    sizes, first = np.unique(size[order], return_index=True)
    last = [*first[1:].tolist(), len(order)]
    for length, begin, end in zip(sizes.tolist(), first.tolist(), last[: len(sizes)], strict=True):
        if length:
            rows = order[begin:end]
            form = f"V{length}"
            source = np.ndarray(len(data) - length + 1, form, data.buffer, strides=(1,))
            target = np.ndarray(copied.size - length + 1, form, copied, strides=(1,))
            target[ends[rows]] = source[at[rows]]
    nulls = None if valid.all() else _bitmap(valid)
    buffers = [nulls, pa.py_buffer(ends), pa.py_buffer(copied)]
    return pa.Array.from_buffers(pa.binary(), len(at), buffers)


def texts(data: ByteBuffer, at: Ints, size: Ints, valid: Flags | None = None) -> pa.Array:
    """Decode the texts at positions; invalid UTF-8 becomes replacement characters."""
    found = blobs(data, at, size, valid)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        raws = found.to_pylist()
        decoded = [None if raw is None else raw.decode("utf-8", "replace") for raw in raws]
        return pa.array(decoded, pa.string())


def list_ends(counts: Ints) -> pa.Array:
    """Return the offsets of a list array from the number of elements of each list."""
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    return pa.array(ends)


def mask(valid: Flags) -> pa.Array | None:
    """Return the null mask that Arrow's list arrays take."""
    return None if valid.all() else pa.array(~valid)
