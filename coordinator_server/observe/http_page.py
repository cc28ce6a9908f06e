"""The page and its files, and the description of the API: read once, served from memory."""

from functools import cache
from importlib.resources import files

from aiohttp import web

TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "json": "application/json",
}
CHARSETS = ("html", "css", "js")


@cache
def _file(name: str) -> bytes:
    return files("coordinator_server.observe").joinpath(name).read_bytes()


def _served(name: str) -> web.Response:
    kind = name.rpartition(".")[2]
    return web.Response(
        body=_file(name),
        content_type=TYPES[kind],
        charset="utf-8" if kind in CHARSETS else None,
        headers={"Cache-Control": "no-cache"},
    )


def page_routes() -> list[web.RouteDef]:
    """The routes; the files are those of the package, never a path of a request."""
    directory = files("coordinator_server.observe").joinpath("web")
    names = frozenset(entry.name for entry in directory.iterdir() if _is_served(entry.name))

    async def page(_request: web.Request) -> web.Response:
        return _served("web/index.html")

    async def part(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in names:
            raise web.HTTPNotFound
        return _served(f"web/{name}")

    async def openapi(_request: web.Request) -> web.Response:
        return _served("openapi.json")

    return [
        web.get("/", page),
        web.get("/web/{name}", part),
        web.get("/api/openapi.json", openapi),
    ]


def _is_served(name: str) -> bool:
    return name.rpartition(".")[2] in TYPES
