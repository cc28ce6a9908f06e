"""All attacks, by name."""

from tests.abuse.attack import Attack
from tests.abuse.attacks import connections, groups, memory, names, storage

ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for attack in (
        *memory.ATTACKS,
        *storage.ATTACKS,
        *connections.ATTACKS,
        *groups.ATTACKS,
        *names.ATTACKS,
    )
}
