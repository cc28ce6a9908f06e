"""A leader's SyncGroup, read without the interpreter: it has an assignment for every member.

The others say the same as each other, and are read by their tails.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final

from coordinator_protocol.decoding import compact_length
from coordinator_protocol.fields import short_text
from coordinator_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_FIRST_WITH_PROTOCOL: Final = 5
_int32: Final = Struct(">i").unpack_from


class LeaderSyncDecoder:
    """Reads requests of a flexible version that assign something.

    What assigns nothing, has null, long or broken text, or more than its schema says, is left to
    the decoder.
    """

    __slots__ = ("_decode", "_names_protocol")

    def __init__(self, version: int, decode: Callable[[bytes, int, int], Any]) -> None:
        self._names_protocol = version >= _FIRST_WITH_PROTOCOL
        self._decode = decode

    def decode(self, buffer: bytes, start: int, end: int) -> Any:
        """The message in buffer[start:end]. Raises Malformed."""
        try:
            message = self._read(buffer, start, end)
        except (IndexError, StructError, ValueError):
            message = None
        return self._decode(buffer, start, end) if message is None else message

    def _read(self, buffer: bytes, start: int, end: int) -> SyncGroupRequest | None:
        """None, or one of the errors above: it is not what is read here."""
        group_id, at = short_text(buffer, start)
        (generation,) = _int32(buffer, at)
        member_id, at = short_text(buffer, at + 4)
        instance_id, at = _nullable_text(buffer, at)
        protocol_type = protocol_name = None
        if self._names_protocol:
            protocol_type, at = _nullable_text(buffer, at)
            protocol_name, at = _nullable_text(buffer, at)
        count, at = compact_length(buffer, at)
        if count <= 0:
            return None
        assignments = []
        while count:
            count -= 1
            assigned, at = short_text(buffer, at)
            size, at = compact_length(buffer, at)
            tags = at + size
            if size < 0 or buffer[tags]:
                return None
            assignments.append(SyncGroupRequestAssignment(assigned, buffer[at:tags]))
            at = tags + 1
        if buffer[at] or at + 1 != end:
            return None
        return SyncGroupRequest(
            group_id,
            generation,
            member_id,
            instance_id,
            protocol_type,
            protocol_name,
            assignments,
        )


def _nullable_text(buffer: bytes, at: int) -> tuple[str | None, int]:
    return (None, at + 1) if not buffer[at] else short_text(buffer, at)
