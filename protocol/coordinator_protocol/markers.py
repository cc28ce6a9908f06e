"""Transaction markers: control records that say how a transaction ended."""

from coordinator_protocol.errors import Malformed
from coordinator_protocol.reader import Reader


def decode_marker(key: bytes) -> bool:
    """Whether a control record commits its transaction, or aborts it. Raises Malformed."""
    reader = Reader(key, "control record key")
    reader.int16()
    kind = reader.int16()
    if kind not in (0, 1):
        raise Malformed(f"control record of type {kind}, expected 0 (abort) or 1 (commit)")
    return kind == 1
