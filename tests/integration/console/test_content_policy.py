"""The console and the API's documentation under the server's Content-Security-Policy, without a way to the internet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.spark_fixtures import ServerProcess, server_process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("policy") / "data") as running:
        yield running


@dataclass
class Watched:
    """A page, the hosts that it asked, and what the browser had to say of it."""

    page: Page
    hosts: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda message: self.complaints.extend([message.text] if message.type == "error" else [])
        )


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(color_scheme="light", viewport={"width": 1440, "height": 900})
    yield Watched(context.new_page())
    context.close()


@pytest.mark.parametrize("path", ["/docs", "/api/v1/docs"])
def test_the_documentation_is_no_blank_page_and_asks_no_other_host(
    watched: Watched, server: ServerProcess, path: str, tmp_path: Path
) -> None:
    """Its scripts came from another host: without internet the page was blank."""
    watched.page.goto(f"{server.url}{path}")
    expect(watched.page.get_by_role("heading", name="Firn management API")).to_be_visible()
    watched.page.locator(".opblock-summary").first.click()
    expect(watched.page.get_by_text("Parameters").first).to_be_visible()
    watched.page.screenshot(path=tmp_path / "docs.png")
    assert urlsplit(watched.page.url).path == "/docs"
    assert watched.hosts - {""} == {urlsplit(server.url).netloc}  # data: has no host
    assert watched.complaints == []


@pytest.mark.parametrize("path", ["/", "/c/lake/tables", "/settings", "/c/lake/policies"])
def test_the_console_works_under_the_policy(watched: Watched, server: ServerProcess, path: str, tmp_path: Path) -> None:
    watched.page.goto(f"{server.url}{path}")
    expect(watched.page.get_by_role("navigation").first).to_be_visible()
    expect(watched.page.get_by_role("heading").first).to_be_visible()
    watched.page.wait_for_load_state("networkidle")
    watched.page.screenshot(path=tmp_path / "console.png")
    assert watched.hosts - {""} == {urlsplit(server.url).netloc}
    assert watched.complaints == []


def test_a_script_in_the_page_does_not_run(watched: Watched, server: ServerProcess) -> None:
    """What somebody might get into a page through a name or a comment."""
    watched.page.goto(server.url)
    watched.page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.injected = true';
            document.body.append(script);
            document.body.insertAdjacentHTML('beforeend', '<img src="x" onerror="window.injected = true">');
        }"""
    )
    watched.page.wait_for_load_state("networkidle")
    assert watched.page.evaluate("window.injected") is None
    assert any("Content Security Policy" in complaint for complaint in watched.complaints)
