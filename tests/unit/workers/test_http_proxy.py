"""The HTTP server of several workers, without workers."""

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from coordinator_server.config.listeners import Address
from coordinator_server.workers.http_proxy import HttpProxy, WorkerHttp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from coordinator_server.workers.process import WorkerProcess


class FakeWorker:
    """Answers a scrape with what it has counted; `ends` while others are still asked."""

    index = 0
    is_ready = True
    restarts = 0

    def __init__(self) -> None:
        self.pid: int | None = 100
        self.counted = 0

    def ends(self) -> None:
        self.pid, self.counted = (self.pid or 0) + 100, 0


class Scraped(HttpProxy):
    """Asks without HTTP."""

    def __init__(self, worker: FakeWorker) -> None:
        self.worker = worker
        self.ends_meanwhile = False
        worker_http = WorkerHttp(cast("WorkerProcess", worker), "")
        super().__init__(
            Address("127.0.0.1", 0),
            [worker_http],
            50,
            max_connections=1,
            report=lambda *_, **__: None,
        )

    async def _texts(self, _path: str) -> list[tuple[int, str] | None]:
        text = f"# HELP x_total x\n# TYPE x_total counter\nx_total {self.worker.counted}\n"
        if self.ends_meanwhile:
            self.worker.ends()
        return [(200, text)]

    async def scrape(self) -> float:
        body = (await self._metrics(cast("web.Request", None))).body
        assert isinstance(body, bytes)
        (line,) = [each for each in body.decode().splitlines() if each.startswith("x_total ")]
        return float(line.split()[1])


async def test_what_a_worker_answered_that_has_ended_meanwhile_is_not_its_successors() -> None:
    worker = FakeWorker()
    proxy = Scraped(worker)
    worker.counted = 1_000
    assert await proxy.scrape() == 1_000
    worker.counted, proxy.ends_meanwhile = 1_010, True
    assert await proxy.scrape() == 1_010
    worker.counted, proxy.ends_meanwhile = 5, False
    assert await proxy.scrape() == 1_015


async def test_what_two_who_ask_at_once_are_told_counts_once() -> None:
    worker = FakeWorker()
    proxy = Scraped(worker)
    worker.counted = 1_000
    await proxy.scrape()
    late: dict[str, Any] = {}

    async def texts_of_one_that_waited(_path: str) -> list[tuple[int, str] | None]:
        answer = await Scraped._texts(proxy, "")
        worker.ends()
        worker.counted = 5
        del proxy.__dict__["_texts"]
        late["first"] = await proxy.scrape()
        return answer

    proxy.__dict__["_texts"] = texts_of_one_that_waited
    assert await proxy.scrape() == late["first"] == 1_005


async def test_findings_of_all_workers_come_with_the_most_rebalances_first() -> None:
    class Listing(HttpProxy):
        async def _text(self, index: int, _path: str) -> tuple[int, str]:
            findings = [{"count": count} for count in ((9, 6), (12, 7))[index]]
            return 200, json.dumps({"groups": [], "findings": findings, "next": None})

    workers = [WorkerHttp(cast("WorkerProcess", FakeWorker()), "") for _ in range(2)]
    address = Address("127.0.0.1", 0)
    proxy = Listing(address, workers, 50, max_connections=1, report=lambda *_, **__: None)
    request = SimpleNamespace(query={}, raw_path="/api/groups")
    body = (await proxy._groups(cast("web.Request", request))).body
    assert isinstance(body, bytes)
    assert [finding["count"] for finding in json.loads(body)["findings"]] == [12, 9, 7, 6]


async def test_partitions_of_all_workers_that_do_not_serve_are_named_together() -> None:
    class Asked(HttpProxy):
        async def _texts(self, _path: str) -> list[tuple[int, str] | None]:
            forms = [
                {
                    "status": "loading",
                    "partitions": {"failed": 1},
                    "unserved": [{"partition": n, "state": "failed", "error": "OSError: x"}],
                }
                for n in (7, 3)
            ]
            return [(503, json.dumps(form)) for form in forms]

    workers = [WorkerHttp(cast("WorkerProcess", FakeWorker()), "") for _ in range(2)]
    address = Address("127.0.0.1", 0)
    proxy = Asked(address, workers, 50, max_connections=1, report=lambda *_, **__: None)
    answer = await proxy._readyz(cast("web.Request", SimpleNamespace()))
    assert isinstance(answer.body, bytes)
    assert [each["partition"] for each in json.loads(answer.body)["unserved"]] == [3, 7]
    assert answer.status == 503


async def test_the_memory_budgets_of_all_workers_are_added() -> None:
    class Budgets(HttpProxy):
        limits: "Sequence[int | None]" = (100, 200)

        async def _texts(self, _path: str) -> list[tuple[int, str] | None]:
            forms = [
                {"used_bytes": 7, "limit_bytes": limit, "waiting_connections": 2}
                for limit in self.limits
            ]
            return [None, *((200, json.dumps({"client_memory": form})) for form in forms)]

    workers = [WorkerHttp(cast("WorkerProcess", FakeWorker()), "") for _ in range(3)]
    address = Address("127.0.0.1", 0)
    proxy = Budgets(address, workers, 50, max_connections=1, report=lambda *_, **__: None)
    request = cast("web.Request", SimpleNamespace())

    async def answered() -> object:
        body = (await proxy._status(request)).body
        assert isinstance(body, bytes)
        return json.loads(body)["client_memory"]

    expected = {"used_bytes": 14, "limit_bytes": 300, "waiting_connections": 4}
    assert await answered() == expected
    proxy.limits = (100, None)
    assert await answered() == {**expected, "limit_bytes": None}
