"""Whether this node is the one that creates and deletes topics, as Metadata names it."""

from coordinator_server.api.call import Call
from coordinator_server.api.services import Services


def is_controller(call: Call, services: Services) -> bool:
    """Whether it is; others answer NOT_CONTROLLER, and clients look again."""
    directory, listener = services.directory, call.caller.listener
    return directory.controller(listener) == directory.this_node(listener)
