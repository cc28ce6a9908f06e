"""Nobody is asked who they are, everybody may do everything, as much as they like."""

from coordinator_server.ports import ANONYMOUS, Caller, Operation, Principal, Resource


class Anonymous:
    """Implements ports.Authenticator: the principal of a listener without authentication."""

    def principal(self, _listener: str, _host: str) -> Principal | None:
        """User:ANONYMOUS."""
        return ANONYMOUS


class AllowAll:
    """Implements ports.Authorizer."""

    def allowed(
        self, _caller: Caller, _operation: Operation, _resource: Resource, _name: str
    ) -> bool:
        """Always."""
        return True


class Unlimited:
    """Implements ports.Quota."""

    def throttle_ms(self, _caller: Caller, _spent_us: int) -> int:
        """Never."""
        return 0
