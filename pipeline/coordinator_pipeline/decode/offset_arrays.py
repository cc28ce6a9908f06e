"""Decodes the keys and values of committed offsets, one numpy step per field."""

from typing import NamedTuple

import numpy as np

from coordinator_pipeline.decode.byte_arrays import ByteBuffer, Flags, Ints


class OffsetKeyArrays(NamedTuple):
    """Keys of committed offsets; an array has one element for each key."""

    group_at: Ints
    group_size: Ints
    topic_at: Ints
    topic_size: Ints
    partition: Ints
    sound: Flags


def read_offset_keys(data: ByteBuffer, at: Ints, size: Ints) -> OffsetKeyArrays:
    """Decode keys of versions 0 and 1 at positions `at`, each of `size` bytes."""
    end = at + size
    group_at = at + 4
    group_size = data.int16(at + 2)
    sound = (size >= 4) & (group_size >= 0)
    topic_at = np.where(sound, group_at + group_size + 2, 0)
    topic_size = data.int16(topic_at - 2)
    behind = topic_at + topic_size
    sound &= (topic_at <= end) & (topic_size >= 0) & (behind + 4 <= end)
    return OffsetKeyArrays(group_at, group_size, topic_at, topic_size, data.int32(behind), sound)


class OffsetValueArrays(NamedTuple):
    """Values of committed offsets; an array has one element for each value, -1 for none."""

    version: Ints
    offset: Ints
    leader_epoch: Ints
    metadata_at: Ints
    metadata_size: Ints
    commit_timestamp: Ints
    expire_timestamp: Ints
    topic_id_at: Ints
    sound: Flags
    """Whether the whole value was decoded; unknown tagged fields are not."""


def read_offset_values(data: ByteBuffer, at: Ints, size: Ints) -> OffsetValueArrays:
    """Decode values of versions 0 to 4 at positions `at`, each of `size` bytes."""
    end = at + size
    version = data.int16(at)
    flexible = version == 4
    with_epoch = version >= 3
    text_at = at + np.where(with_epoch, 14, 10)
    metadata_at, metadata_size = text_at + 2, data.int16(text_at)
    if flexible.any():
        size_and_one, behind = data.uvarints(np.where(flexible, text_at, at))
        metadata_at = np.where(flexible, behind, metadata_at)
        metadata_size = np.where(flexible, size_and_one - 1, metadata_size)
    sound = (version >= 0) & (version <= 4) & (metadata_at <= text_at + 5) & (metadata_size >= 0)
    time_at = np.where(sound, metadata_at + metadata_size, 0)
    behind = time_at + 8
    expires = version == 1
    expire = np.where(expires, data.int64(behind), -1) if expires.any() else np.full(len(at), -1)
    topic_id_at = np.full(len(at), -1)
    behind = behind + np.where(expires, 8, 0) + flexible
    if flexible.any():
        tagged = np.flatnonzero(flexible & sound & (data.uint8(behind - 1) != 0))
        if tagged.size:
            here = behind[tagged]
            plain = (data.uint8(here - 1) == 1) & (data.int16(here) == 0x10)
            plain &= (data.int64(here + 2) != 0) | (data.int64(here + 10) != 0)
            sound[tagged[~plain]] = False
            topic_id_at[tagged] = here + 2
            behind[tagged] = here + 18
    sound &= behind <= end
    return OffsetValueArrays(
        version,
        data.int64(at + 2),
        np.where(with_epoch, data.int32(at + 10), -1),
        metadata_at,
        metadata_size,
        data.int64(time_at),
        expire,
        topic_id_at,
        sound,
    )
