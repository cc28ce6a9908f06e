"""An HTTP client of a fake server."""

from typing import Any

import aiohttp

from tests.support.fake_http_server import TOKEN, FakeHttpServer


class HttpClient:
    """Sends HTTP requests to a fake server."""

    def __init__(self, side: FakeHttpServer, session: aiohttp.ClientSession) -> None:
        self.side = side
        self.status = side.status
        self.session = session

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        url = f"{self.side.url}{path}"
        async with self.session.request(method, url, **more) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())

    async def get(self, path: str) -> tuple[int, Any]:
        return await self.ask("GET", path)

    async def change(
        self, method: str, path: str, body: Any = None, token: str = f"Bearer {TOKEN}"
    ) -> tuple[int, Any]:
        return await self.ask(method, path, json=body, headers={"Authorization": token})
