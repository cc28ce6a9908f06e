"""The Kubernetes manifests: parsed, and held against what the image and the server have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator_server.app import STOP_SECONDS
from coordinator_server.config import load
from tests.support.client_processes import ROOT
from tests.support.dockerfile import stages
from tests.support.fake_http_server import fake_http_server

MANIFESTS = ROOT / "deploy" / "kubernetes" / "coordinator.yaml"
LABEL = {"app.kubernetes.io/name": "coordinator"}


def manifests() -> dict[tuple[str, str], Any]:
    """By kind and name."""
    found = [each for each in yaml.safe_load_all(MANIFESTS.read_text()) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod() -> Any:
    return manifests()["StatefulSet", "coordinator"]["spec"]["template"]["spec"]


def container() -> Any:
    (only,) = pod()["containers"]
    return only


def test_all_that_is_needed_is_there() -> None:
    assert manifests().keys() == {
        ("ConfigMap", "coordinator"),
        ("Service", "coordinator-nodes"),
        ("Service", "coordinator"),
        ("StatefulSet", "coordinator"),
        ("PodDisruptionBudget", "coordinator"),
    }
    for manifest in manifests().values():
        assert manifest["metadata"]["labels"] == LABEL


async def test_probes_ask_what_is_served_and_only_readiness_waits_for_the_load() -> None:
    probes = {
        name: container()[f"{name}Probe"]["httpGet"]
        for name in ("startup", "liveness", "readiness")
    }
    paths = {name: probe["path"] for name, probe in probes.items()}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert {probe["port"] for probe in probes.values()} == {"http"}
    async with fake_http_server() as side:
        application = side.server.application()
        served = {
            route.resource.canonical for route in application.router.routes() if route.resource
        }
        assert set(paths.values()) <= served


def test_ports_and_selectors_fit() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    exposed = next(each for each in stages(ROOT / "docker/Dockerfile")[-1] if each.name == "EXPOSE")
    assert sorted(map(int, exposed.words)) == sorted(ports.values())
    stateful = manifests()["StatefulSet", "coordinator"]["spec"]
    assert (
        stateful["selector"]["matchLabels"] == LABEL == stateful["template"]["metadata"]["labels"]
    )
    assert stateful["replicas"] == 1
    for name in ("coordinator", "coordinator-nodes"):
        service = manifests()["Service", name]["spec"]
        assert service["selector"] == LABEL
        assert {port["targetPort"] for port in service["ports"]} <= ports.keys()
    headless = manifests()["Service", stateful["serviceName"]]["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    budget = manifests()["PodDisruptionBudget", "coordinator"]["spec"]
    assert budget["selector"]["matchLabels"] == LABEL


def test_the_settings_are_right_with_the_name_of_the_pod(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(manifests()["ConfigMap", "coordinator"]["data"]["server.properties"])
    given = {each["name"]: each.get("value") for each in container()["env"]}
    told = str(given["KAFKA_ADVERTISED_LISTENERS"])
    told = told.replace("$(POD_NAME)", "coordinator-0").replace("$(POD_NAMESPACE)", "default")
    loaded = load(environ={"KAFKA_ADVERTISED_LISTENERS": told}, file=file)
    assert not loaded.warnings
    (listener,) = loaded.config.advertised()
    assert listener.host == "coordinator-0.coordinator-nodes.default.svc"
    assert loaded.config.http_listener is not None
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert loaded.config.http_listener.port == ports["http"]
    mounts = {each["name"]: each["mountPath"] for each in container()["volumeMounts"]}
    assert Path(mounts["data"]) in loaded.config.log_dirs.parents
    assert container()["args"] == ["run", "--config", f"{mounts['config']}/server.properties"]


def test_what_is_mounted_is_a_claim_or_a_volume() -> None:
    stateful = manifests()["StatefulSet", "coordinator"]["spec"]
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    volumes = {volume["name"] for volume in pod()["volumes"]}
    assert {mount["name"] for mount in container()["volumeMounts"]} == claims | volumes


def test_a_stop_is_given_the_time_it_takes() -> None:
    # Besides its own bound a stop waits for a second for connections and another for HTTP.
    assert pod()["terminationGracePeriodSeconds"] > 2 * (STOP_SECONDS + 2)


@pytest.mark.parametrize("unwanted", ["privileged", "hostNetwork", "hostPath", "runAsUser: 0"])
def test_the_pod_has_no_more_rights_than_it_needs(unwanted: str) -> None:
    assert unwanted not in MANIFESTS.read_text()
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["runAsUser"] == 1000
    rights = container()["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
