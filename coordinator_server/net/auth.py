"""Defaults that allow everything: no authentication and no authorization."""

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
