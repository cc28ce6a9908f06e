"""The bit fields that tell a client what it may do (KIP-430), and the cluster's resource name."""

from coordinator_server.ports import Authorizer, Caller, Operation, Resource

CLUSTER_NAME = "kafka-cluster"
"""The one name a resource of type CLUSTER has."""

NOT_ASKED = -(2**31)
"""The value of a response whose client did not ask for operations."""

SUPPORTED = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations a resource knows (Kafka's `AclEntry.supportedOperations`)."""


def authorized_operations(
    authorizer: Authorizer, caller: Caller, resource: Resource, name: str
) -> int:
    """Bit n is set where the caller may do the operation of code n."""
    return sum(
        1 << operation
        for operation in SUPPORTED[resource]
        if authorizer.allowed(caller, operation, resource, name)
    )


def cluster_operations(authorizer: Authorizer, caller: Caller) -> int:
    """The bit field of the cluster; 0 for a caller who may not even describe it."""
    if not authorizer.allowed(caller, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(authorizer, caller, Resource.CLUSTER, CLUSTER_NAME)
