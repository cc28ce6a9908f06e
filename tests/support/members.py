"""The commands of group members, by client library."""

from collections.abc import Callable
from pathlib import Path

from tests.support.processes import MemberKind, Room, python_client

SaramaMembers = Callable[..., MemberKind]
"""Of a strategy and a `Config.Version`, both optional."""


def aiokafka_members(strategy: str = "range") -> MemberKind:
    """Members by aiokafka."""
    return lambda room, name, session_ms: python_client(
        "aiokafka_member",
        room,
        name,
        *("--strategy", strategy, "--session-ms", str(session_ms)),
    )


def confluent_members(strategy: str = "range") -> MemberKind:
    """Members by librdkafka."""
    return lambda room, name, session_ms: python_client(
        "confluent_member",
        room,
        name,
        *("--strategy", strategy, "--session-ms", str(session_ms)),
    )


def sarama_members_of(program: Path, strategy: str = "range", version: str = "") -> MemberKind:
    """Members by sarama, of a built program; no version is sarama's default."""

    def command(room: Room, name: str, session_ms: int) -> list[str]:
        made = [str(program), "-bootstrap", room.bootstrap, "-group", room.group]
        made += ["-topic", room.topic, "-name", name, "-strategy", strategy]
        made += ["-session-ms", str(session_ms)]
        return [*made, "-version", version] if version else made

    return command
