"""A Chromium of the system, and a page of a made-up server in it."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from tests.support.fake_http_server import FakeHttpServer, fake_http_server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SETTLED_MS = 10_000
"""How long a test waits for what the page shows in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Chromium one clear line says why the page's tests did not run."""
    if CHROMIUM is None:
        missing = pytest.mark.skip(reason="no chromium on this machine (Debian: apt install it)")
        for item in items:
            if item.path.parent.name == "web" and "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(missing)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window, one for all tests: its start takes a second."""
    async with async_playwright() as playwright:
        # Its sandbox needs rights that root in a container has not, and the page is our own.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def side() -> AsyncIterator[FakeHttpServer]:
    """A server with a story to show."""
    async with fake_http_server() as side:
        side.add_rebalance_history()
        yield side


@pytest.fixture
def troubles() -> Iterator[list[str]]:
    """What a page complained about; a test fails if there is anything in it at the end."""
    found: list[str] = []
    yield found
    assert found == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, side: FakeHttpServer, troubles: list[str]) -> AsyncIterator[Page]:
    """A page of that server; errors of its scripts and requests elsewhere fail the test."""
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    yield watched(page, side.url, troubles)
    await page.close()


def watched(page: Page, url: str, troubles: list[str]) -> Page:
    """Let a page's errors, dialogs and requests to other hosts be noted."""
    page.set_default_timeout(SETTLED_MS)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
    page.on(
        "console",
        lambda message: troubles.append(message.text) if message.type == "error" else None,
    )
    page.on(
        "request",
        lambda request: None if request.url.startswith(url) else troubles.append(request.url),
    )
    return page
