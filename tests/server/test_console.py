"""The console's files over HTTP: what is kept for ever, what is a page, and what stays an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from server.console import mount_console


@contextmanager
def serving(built: Callable[[], Path | None]) -> Iterator[httpx.Client]:
    """A client of an application with one API route and the console."""
    app = FastAPI()
    app.get("/api/v1/catalogs")(lambda: ["lake"])
    mount_console(app, built)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = tmp_path / "dist"
    (root / "assets").mkdir(parents=True)
    (root / "index.html").write_text("<title>Firn</title>")
    (root / "firn.svg").write_text("<svg/>")
    (root / "assets" / "index-abc.js").write_text("1")
    (tmp_path / "secret").write_text("not to be served")
    return root


@pytest.fixture
def browser(built: Path) -> Iterator[httpx.Client]:
    with serving(lambda: built) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/lake/tables/db.orders", "/jobs?status=failed"])
def test_every_page_of_the_console_is_its_index_and_never_stale(browser: httpx.Client, path: str) -> None:
    answer = browser.get(path, headers={"accept": "text/html,*/*;q=0.8"})
    assert answer.text == "<title>Firn</title>"
    assert answer.headers["cache-control"] == "no-cache"


def test_files_named_by_their_content_are_kept_for_ever(browser: httpx.Client) -> None:
    assert "immutable" in browser.get("/assets/index-abc.js").headers["cache-control"]
    assert browser.get("/firn.svg").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/assets/index-old.js", "/api/v1/nothing", "/iceberg/v1/nothing"])
def test_a_missing_file_or_api_path_is_an_error_and_not_a_page(browser: httpx.Client, path: str) -> None:
    assert browser.get(path).status_code == 404


def test_a_program_that_asks_for_json_is_not_given_a_page(browser: httpx.Client) -> None:
    assert browser.get("/catalogs", headers={"accept": "application/json"}).status_code == 404


def test_routes_made_before_win(browser: httpx.Client) -> None:
    assert browser.get("/api/v1/catalogs").json() == ["lake"]


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret"])
def test_nothing_outside_the_build_is_served(browser: httpx.Client, path: str) -> None:
    assert "not to be served" not in browser.get(path).text


def test_without_a_build_the_page_says_how_to_make_one() -> None:
    with serving(lambda: None) as client:
        answer = client.get("/")
    assert answer.status_code == 503
    assert "make console" in answer.text


@pytest.mark.parametrize("path", ["/index.html%00.js", "/assets/%00", "/a%ff%fe", "/%ed%b3%84", "/" + "x" * 5_000])
def test_a_name_that_no_file_could_have_is_no_crash(browser: httpx.Client, path: str) -> None:
    assert browser.get(path, headers={"accept": "text/css"}).status_code == 404
    assert browser.get(path).status_code in (200, 404)
