"""Which topic names are legal, and which are Kafka's own (Kafka's `Topic` class)."""

import re

GROUP_METADATA_TOPIC = "__consumer_offsets"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, "__transaction_state", "__share_group_state"})

MAX_NAME_LENGTH = 249
"""A directory is called `<topic>-<partition>`, and file systems allow 255 bytes."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """Kafka's reason for refusing a topic name; None if the name is legal."""
    reason = _why(name)
    return None if reason is None else f"Topic name is invalid: {reason}"


def _why(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Two topics with the same key could not be told apart in metric names."""
    return name.replace(".", "_")
