"""HTTP is served under names that no stranger can own."""

import pytest

from coordinator_server.config.model import from_texts
from coordinator_server.observe.http_hosts import AllowedHosts
from tests.support.fake_http_server import FakeHttpServer
from tests.support.http_client import HttpClient


@pytest.mark.parametrize(
    "host",
    [
        None,
        "127.0.0.1",
        "127.0.0.1:9404",
        "10.1.2.3:9404",
        "[::1]:9404",
        "::1",
        "localhost:9404",
        "LOCALHOST",
        "app.localhost:9404",
        "coordinator:9404",
        "kafka.example.org:9404",
        "kafka.example.org.:9404",
        "a.svc.cluster.local",
    ],
)
def test_accepted(host: str | None) -> None:
    assert AllowedHosts(["kafka.example.org", "*.cluster.local"]).has(host)


@pytest.mark.parametrize(
    "host",
    ["evil.example:9404", "127.0.0.1.evil.example", "localhost.evil.example", "cluster.local.x"],
)
def test_refused(host: str) -> None:
    assert not AllowedHosts(["kafka.example.org", "*.cluster.local"]).has(host)
    assert AllowedHosts(["*"]).has(host)


def test_advertised_names_and_those_that_are_set_are_accepted() -> None:
    config = from_texts(
        {
            "advertised.listeners": "PLAINTEXT://broker.example.org:9092",
            "http.allowed.hosts": "metrics.example.org",
        }
    )
    hosts = AllowedHosts(config.http_names())
    assert hosts.has("broker.example.org:9404")
    assert hosts.has("metrics.example.org")
    assert not hosts.has("example.org")


async def test_a_strangers_name_is_answered_421_before_anything_else(served: HttpClient) -> None:
    for path in ("/api/groups", "/metrics", "/healthz", "/nothing"):
        status, form = await served.ask("GET", path, headers={"Host": "evil.example\u202e:9404"})
        assert status == 421
        assert "http.allowed.hosts" in form["error"]
        assert "\u202e" not in form["error"]


async def test_addresses_are_served(served: HttpClient) -> None:
    assert isinstance(served.side, FakeHttpServer)
    assert (await served.get("/healthz"))[0] == 200
