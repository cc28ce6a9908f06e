"""Makes the HTTP server; imported late because its import is slow."""

from coordinator_server.config import Config
from coordinator_server.observe.http import HttpServer
from coordinator_server.observe.http_hosts import AllowedHosts
from coordinator_server.observe.sources import Sources
from coordinator_server.observe.sse import EventStream
from coordinator_server.server.metrics_setup import Figures, make_exposition
from coordinator_server.server.node_resources import NodeResources
from coordinator_server.storage.segments.reporting import Report


def make_http(
    config: Config,
    resources: NodeResources,
    sources: Sources,
    figures: Figures,
    events: EventStream,
    token: str | None,
    report: Report,
    max_connections: int,
) -> HttpServer:
    """Make the server of `http.listener`, which must be set."""
    address = config.http_listener
    assert address is not None
    return HttpServer(
        address.host,
        address.port,
        sources=sources,
        exposition=make_exposition(config, figures),
        events=events,
        token=token,
        given=resources.http_socket,
        max_connections=max_connections,
        # The supervisor has already checked the Host header of requests to a worker.
        hosts=None if resources.http_socket else AllowedHosts(config.http_names()),
        report=report,
    )
