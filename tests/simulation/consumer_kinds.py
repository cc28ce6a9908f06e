"""The kinds of consumers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerKind:
    """The settings of one kind of consumer; times in milliseconds."""

    session_ms: int = 10_000
    rebalance_ms: int = 30_000
    instance: str | None = None
    protocols: tuple[str, ...] = ("range",)
    knows_ids: bool = True
    """JoinGroup from version 4 on: it asks for a member id first."""
    can_skip: bool = True
    """JoinGroup from version 9 on."""
    repeats_sync: bool = False
    """After a lost connection it sends SyncGroup again; others rejoin."""
    keeps_id: bool = True
    """After ILLEGAL_GENERATION it joins under its old id."""

    is_busy: bool = False
    """It keeps heartbeating and rejoins late in the rebalance, but in time."""

    @property
    def forgets_its_id(self) -> bool:
        """Every abandoned JoinGroup leaves an orphaned member behind (KIP-394)."""
        return not self.knows_ids and self.instance is None

    @property
    def heartbeat_ms(self) -> int:
        """Short enough to notice a rebalance in time; longer ones cause endless rebalances."""
        return min(self.session_ms, self.rebalance_ms) // 3


_SESSIONS_MS = (10_000, 6_000, 30_000)
_REBALANCES_MS = (20_000, 5_000, 60_000, 600_000)
_PROTOCOLS = (("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("sticky",))
_INSTANCES = (None, None, "static-0", "static-1")


def kind_of(how: int) -> ConsumerKind:
    """The kind of consumer of a number; small numbers are common kinds."""
    instance = _INSTANCES[how % 4]
    how //= 4
    return ConsumerKind(
        session_ms=_SESSIONS_MS[how % 3],
        rebalance_ms=_REBALANCES_MS[how // 3 % 4],
        instance=instance,
        protocols=_PROTOCOLS[how // 12 % 7] if how // 12 % 7 < 4 else _PROTOCOLS[0],
        knows_ids=how // 84 % 3 != 1,
        can_skip=how // 252 % 2 == 0,
        repeats_sync=how // 504 % 2 == 1,
        is_busy=how % 5 == 4,
        keeps_id=how // 1008 % 2 == 0,
    )
