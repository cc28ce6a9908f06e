"""Prints `docs/apis.md` from the registry of APIs."""

from coordinator_server.api.registry import ServedApi, announced

INTRODUCTION = """\
What ApiVersions announces. A request of another version closes its connection, but for
ApiVersions itself, which answers the versions there are.

- *needs*: the operation a caller needs on what resource. Some APIs check more beside it: see the
  head of the module
- *may park*: the answer may wait for other clients or for time to pass; the connection's next
  request waits behind it, as in Kafka
"""


def apis_page(note: str) -> str:
    """The whole page."""
    lines = [
        "# APIs",
        "",
        note,
        "",
        INTRODUCTION,
        "| key | API | versions | needs | may park | before authentication | module |",
        "|--:|---|---|---|---|---|---|",
        *map(_row, announced()),
    ]
    return "\n".join(lines) + "\n"


def api_name(api: ServedApi) -> str:
    """The name Kafka gives the API, such as OffsetCommit."""
    return "".join(word.capitalize() for word in api.key.name.split("_"))


def versions(api: ServedApi) -> str:
    """The versions as a range."""
    low, high = api.min_version, api.max_version
    return str(low) if low == high else f"{low}-{high}"


def _row(api: ServedApi) -> str:
    needs = (
        ""
        if api.operation is None or api.resource is None
        else (f"{api.operation.name} on {api.resource.name}")
    )
    cells = (
        str(int(api.key)),
        api_name(api),
        versions(api),
        needs,
        _yes(api.may_park),
        _yes(api.before_authentication),
        f"`api/{api.module}.py`",
    )
    return f"| {' | '.join(cells)} |"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else ""
