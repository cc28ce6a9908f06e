"""The description of the HTTP API as YAML, made from the JSON that is served."""

import json
from pathlib import Path

import yaml

import coordinator_server

SOURCE = Path(coordinator_server.__file__).parent / "observe" / "openapi.json"


def openapi_page(note: str) -> str:
    """The page; `note` says what it is printed by."""
    described = json.loads(SOURCE.read_text(encoding="utf-8"))
    words = note.removeprefix("<!-- ").removesuffix(" -->")
    text = yaml.safe_dump(described, sort_keys=False, allow_unicode=True, width=100)
    return f"# {words} The source is coordinator_server/observe/openapi.json.\n{text}"
