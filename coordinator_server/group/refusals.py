"""Refusals that do not depend on the group kind."""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Refuse, Rule

LONGEST_TEXT: Final = 2**15 - 1
"""Bytes that a string of a record or of an old response can have."""


LONGEST_CHARACTER: Final = 4
"""Bytes of UTF-8."""


def fits(text: str) -> bool:
    """Whether a record can hold the text; each byte that is not UTF-8 takes three."""
    return LONGEST_CHARACTER * len(text) <= LONGEST_TEXT or len(text.encode()) <= LONGEST_TEXT


def text_too_long(what: str, text: str) -> Refuse:
    """Refuse a text that no record can hold."""
    return Refuse(
        ErrorCode.INVALID_REQUEST,
        Rule.TEXT_TOO_LONG,
        f"the {what} has {len(text)} characters, in UTF-8 it may have {LONGEST_TEXT} bytes",
    )


def group_unknown(member_id: str) -> Refuse:
    """Refuse a member's request to a group that does not exist."""
    return Refuse(
        ErrorCode.UNKNOWN_MEMBER_ID, Rule.GROUP_UNKNOWN, "the group does not exist", member_id
    )


def group_not_found(group_id: str) -> Refuse:
    """Refuse a request about a group that does not exist."""
    return Refuse(ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN, f"Group {group_id} not found.")
