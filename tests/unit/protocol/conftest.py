"""What Kafka's own classes have written; made by tests/golden/GoldenRecords.java."""

import json
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "records.json"


@pytest.fixture(scope="session")
def golden() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found
