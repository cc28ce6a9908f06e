"""The JSON API's answers about groups; they only read."""

import asyncio
import json
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from aiohttp import web

from coordinator_server.observe.forms import (
    Form,
    finding_form,
    listed_rebalance_form,
    offset_form,
    rebalance_form,
    refusal_form,
    started_form,
    status_form,
    summary_form,
    waiting_form,
)
from coordinator_server.observe.http_answers import SLICE_SECONDS, error, stream, whole_number
from coordinator_server.observe.sources import Sources

EVENTS = 100
"""Rebalances in one answer, if a request does not say how many it wants."""
MAX_EVENTS = 1_000
"""As many as the log keeps of a group."""
HOUR_MS = 3_600_000
MAX_LISTED = 100_000
"""Groups in one answer, if a request does not say how many it wants."""
AT_ONCE = 500
"""Ids that are put in order before others get their turn."""


class GroupRoutes:
    """Routes below `/api/groups`."""

    def __init__(self, sources: Sources) -> None:
        self._status = sources.status
        self._timeline = sources.timeline
        self._refusals = sources.refusals
        self._flapping = sources.flapping
        self._wall_ms = sources.wall_ms

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        group = "/api/groups/{group_id:[^/]*}"
        return [
            web.get("/api/groups", self._list),
            web.get(group, self._describe),
            web.get(f"{group}/timeline", self._timeline_of),
            web.get(f"{group}/why", self._why),
            web.get(f"{group}/waiting", self._waiting),
        ]

    # --- lists ---

    async def _list(self, request: web.Request) -> Any:
        limit = whole_number(request.query, "limit", MAX_LISTED, least=1)
        after = request.query.get("after")
        wanted = await self._ids_after(after, limit + 1)
        is_last = len(wanted) <= limit
        del wanted[limit:]
        # The first page tells of all groups: whoever pages reads each finding once.
        found = await self._found() if after is None else []
        end = {"findings": found, "next": None if is_last else wanted[-1]}
        return await stream(
            request, '{"groups": ', self._listed(wanted), f", {json.dumps(end)[1:-1]}}}"
        )

    async def _ids_after(self, after: str | None, at_most: int) -> list[str]:
        """The first ids in order; of each list no more than these can be among them."""
        lists: list[list[str]] = []
        for ids in self._status.group_ids():
            start = 0 if after is None else bisect_right(ids, after)
            lists.append(ids[start : start + at_most])
            await asyncio.sleep(0)
        found: list[str] = []
        for number, group_id in enumerate(islice(merge(*lists), at_most), start=1):
            found.append(group_id)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def _found(self) -> list[Form]:
        """The findings of all groups, the most rebalances first; other work gets its turns."""
        found: list[Form] = []
        began = time.perf_counter()
        for findings in self._flapping.each():
            found += map(finding_form, findings)
            if time.perf_counter() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return sorted(found, key=lambda finding: -finding["count"])

    def _listed(self, ids: Sequence[str]) -> Iterator[Form]:
        since = self._wall_ms() - HOUR_MS
        for group_id in ids:
            # Deleted while the list was written: it is not in it.
            if (summary := self._status.summary(group_id)) is not None:
                latest = self._timeline.latest(group_id)
                yield {
                    **summary_form(summary),
                    "last_rebalance": listed_rebalance_form(latest) if latest else None,
                    "rebalances_1h": self._timeline.count_since(group_id, since),
                }

    # --- one group ---

    async def _describe(self, request: web.Request) -> web.Response:
        group_id = request.match_info["group_id"]
        status = self._status.group(group_id)
        if status is None:
            return _unknown(group_id)
        latest = self._timeline.latest(group_id)
        return web.json_response(
            {
                **status_form(status),
                "offsets": [offset_form(each) for each in self._status.offsets(group_id)],
                "waiting": self._waiting_form(group_id),
                "last_rebalance": rebalance_form(latest) if latest else None,
                "findings": self._findings(group_id),
            }
        )

    async def _timeline_of(self, request: web.Request) -> Any:
        group_id = request.match_info["group_id"]
        since = whole_number(request.query, "since_ms", 0)
        return await self._tell(request, group_id, {"group": group_id}, since)

    async def _why(self, request: web.Request) -> Any:
        group_id = request.match_info["group_id"]
        status = self._status.group(group_id)
        form: Form = status_form(status) if status else {"group": group_id, "state": None}
        return await self._tell(
            request, group_id, {**form, "waiting": self._waiting_form(group_id)}
        )

    async def _waiting(self, request: web.Request) -> web.Response:
        group_id = request.match_info["group_id"]
        form = self._waiting_form(group_id)
        return _unknown(group_id) if form is None else web.json_response(form)

    async def _tell(
        self, request: web.Request, group_id: str, head: Form, since_ms: int = 0
    ) -> Any:
        """The rebalances of a group, which may be deleted; each may name hundreds of members."""
        limit = whole_number(request.query, "limit", EVENTS, least=1, most=MAX_EVENTS)
        looked_at = self._timeline.of(group_id, max(limit, EVENTS))
        current = self._timeline.current(group_id)
        refusals = self._refusals.of(group_id)
        if not (looked_at or current or refusals or self._status.summary(group_id)):
            return _unknown(group_id)
        past = self._flapping.past_findings(group_id, looked_at)
        form = {
            **head,
            "current": started_form(current) if current else None,
            "refusals": [refusal_form(refusal) for refusal in refusals],
            "findings": self._findings(group_id),
            "past_findings": [finding_form(finding) for finding in past],
            "total": self._timeline.total(group_id),
        }
        told = (rebalance_form(e) for e in looked_at[:limit] if e.started_ms >= since_ms)
        return await stream(request, f'{json.dumps(form)[:-1]}, "rebalances": ', told, "}")

    def _waiting_form(self, group_id: str) -> Form | None:
        waiting = self._status.waiting(group_id)
        return None if waiting is None else waiting_form(waiting)

    def _findings(self, group_id: str) -> list[Form]:
        return [finding_form(finding) for finding in self._flapping.findings(group_id)]


def _unknown(group_id: str) -> web.Response:
    return error(404, f"no group {group_id!r} here")
