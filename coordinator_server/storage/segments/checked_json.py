"""Small JSON files with a checksum, so that a changed byte is noticed."""

import json
from collections.abc import Mapping
from typing import Any, Final

from crc32c import crc32c

CHECKSUM: Final = "checksum"
"""The key of the checksum beside those of the document."""


def checksum_of(document: Mapping[str, Any]) -> str:
    """The CRC-32C of a document without its checksum, in hexadecimal."""
    plain = {name: value for name, value in document.items() if name != CHECKSUM}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return f"{crc32c(text.encode()):08x}"


def pack(document: Mapping[str, Any]) -> bytes:
    """The bytes of a file with a document and its checksum."""
    return json.dumps({**document, CHECKSUM: checksum_of(document)}, indent=1).encode() + b"\n"


def unpack(data: bytes, *, is_required: bool = True) -> dict[str, Any]:
    """The document of such a file. Raises ValueError that says what is wrong.

    Without `is_required` a document that never had a checksum is taken as it is.
    """
    document = json.loads(data)
    if not isinstance(document, dict):
        # It is about the value of the bytes, as all that is wrong with a file.
        raise ValueError(  # noqa: TRY004
            f"the file has a JSON {type(document).__name__}, expected an object"
        )
    found = document.get(CHECKSUM)
    if found is None and not is_required:
        return document
    if found != checksum_of(document):
        raise ValueError(
            f"the checksum is {found!r}, the contents have {checksum_of(document)!r}: "
            "bytes of the file have changed since it was written"
        )
    return document
