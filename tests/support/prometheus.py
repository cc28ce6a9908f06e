"""Runs a real Prometheus that scrapes the server, where one is installed."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.support.client_processes import ROOT
from tools.ports import free_port

CONFIG = ROOT / "docker" / "prometheus" / "prometheus.yml"
ALERTS = CONFIG.with_name("alerts.yml")
DASHBOARD = ROOT / "docker" / "grafana" / "dashboards" / "coordinator.json"

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="needs prometheus and promtool (Debian's package prometheus)",
)


class QueryFailed(Exception):
    """Prometheus refuses an expression; the message is its own."""


class Prometheus:
    """Debian's prometheus on a free port, with the project's configuration but for the target."""

    def __init__(self, directory: Path, target: str, interval: str = "1s") -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._directory = directory
        directory.mkdir()
        config = yaml.safe_load(CONFIG.read_text())
        config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
        config["rule_files"] = [str(ALERTS)]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [
            "prometheus",
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def query(self, expression: str) -> list[Any]:
        """What an expression yields now. Raises QueryFailed."""
        return list(self._get("query", query=expression)["result"])

    def rules(self) -> list[Any]:
        """All rules with their health and last error."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def wait_for(self, expression: str, within: float = 60.0) -> list[Any]:
        """Query until there is data; raises AssertionError with the log if none comes."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                if result := self.query(expression):
                    return result
            except OSError:
                assert self._process is not None
                assert self._process.poll() is None, self._log()
            time.sleep(0.2)
        raise AssertionError(f"no data within {within} s: {expression}\n{self._log()}")

    def _log(self) -> str:
        return (self._directory / "log").read_text()[-3000:]

    def _get(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                # It listens before it has read its storage; `wait_for` asks again.
                raise
            raise QueryFailed(f"{parameters}: {error.read().decode()}") from None


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run(
        ("promtool", *arguments), capture_output=True, text=True, timeout=60, check=False
    )


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana loads it."""
    return dict(json.loads(DASHBOARD.read_text()))


def dashboard_expressions(instance: str = ".*") -> dict[str, list[str]]:
    """The expressions of every panel by its title, and of variables and annotations."""
    page = dashboard()
    found = {
        panel["title"]: [target["expr"] for target in panel["targets"]]
        for panel in page["panels"]
        if panel["type"] != "row"
    }
    found["annotations"] = [each["expr"] for each in page["annotations"]["list"]]
    values = {"$instance": instance, "$group": ".*", "$__rate_interval": "1m"}
    for expressions in found.values():
        for name, value in values.items():
            expressions[:] = [expression.replace(name, value) for expression in expressions]
    return found


def alert_rules() -> list[Any]:
    """The rules of `alerts.yml`."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]
