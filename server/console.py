"""The web console: built files of `web/`, served beside the API by the same process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

HASHED = "assets"
"""The directory in which the build names each file by its content."""

_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
_LOOK_AGAIN = {"Cache-Control": "no-cache"}
_OF_PROGRAMS = ("api/", "iceberg/")
_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Firn</title>
<style>body{font:15px/1.5 system-ui;max-width:38em;margin:12vh auto;padding:0 1em;color-scheme:light dark}</style>
<h1>Firn answers, its console is not built</h1>
<p>Build it in the source tree with <code>make console</code> (Node 20 or newer), then load this page again.</p>
<p>The management API works without it: see <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></html>"""


def built_console() -> Path | None:
    """Find the built console: in the installed package, or at the output of the source tree's build."""
    here = Path(__file__).resolve().parent
    directories = (here / "console", here.parent / "web" / "dist")
    return next((directory for directory in directories if (directory / "index.html").is_file()), None)


def mount_console(app: FastAPI, built: Callable[[], Path | None] = built_console) -> None:
    """Serve the API's documentation, and the console for every path that nothing else has.

    Call it after all other routes.

    Paths of the console's own pages get its index, so that a link to a page works. Unknown files and unknown paths of
    the APIs stay 404: a program that asks for JSON must not be given a page. A console built while the server runs is
    found by the next request.
    """

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        root = built()
        if root is None:
            return HTMLResponse(_NOT_BUILT, 503, headers=_LOOK_AGAIN)
        return FileResponse(root / "docs.html", headers=_LOOK_AGAIN)

    @app.get("/{path:path}", include_in_schema=False)
    def console(request: Request, path: str) -> Response:
        if path.startswith(_OF_PROGRAMS):
            raise HTTPException(404, f"nothing is at /{path}")
        root = built()
        if root is None:
            return HTMLResponse(_NOT_BUILT, 503, headers=_LOOK_AGAIN)
        file = _file(root, path)
        if file is not None:
            return FileResponse(file, headers=_FOR_EVER if path.startswith(f"{HASHED}/") else _LOOK_AGAIN)
        if path.startswith(f"{HASHED}/") or not _takes_pages(request):
            raise HTTPException(404, f"nothing is at /{path}")
        return FileResponse(root / "index.html", headers=_LOOK_AGAIN)


def _file(root: Path, path: str) -> Path | None:
    try:
        file = (root / path).resolve()
        return file if path and file.is_file() and file.is_relative_to(root) else None
    except (OSError, ValueError):  # a page about a table whose name no file could have: too long, or with a NUL in it
        return None


def _takes_pages(request: Request) -> bool:
    accept = request.headers.get("accept", "*/*")
    return "text/html" in accept or "*/*" in accept
