"""The commands of group members, by client library."""

from collections.abc import Callable
from pathlib import Path

from tests.support.client_processes import ClientGroup, MemberKind, python_client

SaramaMembers = Callable[..., MemberKind]
"""Of a strategy and a `Config.Version`, both optional."""


def aiokafka_members(strategy: str = "range") -> MemberKind:
    """Members by aiokafka."""
    return lambda client_group, name, session_ms: python_client(
        "aiokafka_member",
        client_group,
        name,
        *("--strategy", strategy, "--session-ms", str(session_ms)),
    )


def confluent_members(strategy: str = "range") -> MemberKind:
    """Members by librdkafka."""
    return lambda client_group, name, session_ms: python_client(
        "confluent_member",
        client_group,
        name,
        *("--strategy", strategy, "--session-ms", str(session_ms)),
    )


def sarama_members_of(program: Path, strategy: str = "range", version: str = "") -> MemberKind:
    """Members by sarama, of a built program; no version is sarama's default."""

    def command(client_group: ClientGroup, name: str, session_ms: int) -> list[str]:
        made = [str(program), "-bootstrap", client_group.bootstrap, "-group", client_group.group]
        made += ["-topic", client_group.topic, "-name", name, "-strategy", strategy]
        made += ["-session-ms", str(session_ms)]
        return [*made, "-version", version] if version else made

    return command
