"""A real Chromium: tests open pages in it, and check its errors and the violations that axe reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

CHROMIUM = which("chromium-headless-shell") or "/usr/bin/chromium"
"""Without a window it opens a page at half of the CPU time, and a new context at a sixth."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
SLOWEST_MS = 90_000
END_OF_TRANSITIONS = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    const ends = ({playState, effect}) => playState !== "finished" && effect.getComputedTiming().endTime < Infinity;
    for (await frame(), await frame(); document.getAnimations().some(ends); await frame()) {}
}"""
"""Colours that change are other ones than those of their end, however long a busy machine takes to get there."""

OpenPage = Callable[..., Page]


@contextmanager
def running_chromium() -> Iterator[Browser]:
    expect.set_options(timeout=SLOWEST_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def pages_of(browser: Browser) -> Iterator[OpenPage]:
    """Give a function that opens an address in a new browser context.

    Menus and dialogs open and close at once there: one that fades away is still a part of the page. At the end it fails
    if a page raised an error that no code caught.
    """
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(url: str, *, width: int = 1440) -> Page:
        context = browser.new_context(
            color_scheme="light", reduced_motion="reduce", viewport={"width": width, "height": 900}
        )
        contexts.append(context)
        context.set_default_timeout(SLOWEST_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def settled(page: Page) -> None:
    """Wait until the page shows its heading and no placeholders."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".mantine-Skeleton-root")).to_have_count(0)
    page.wait_for_load_state("networkidle")


def violations(page: Page) -> list[str]:
    """The violations that axe reports: all of the light page, and those of contrast in the dark one.

    The dark page differs from the light one only in its colours.
    """
    light = violations_in_light(page)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    dark = list_violations(page, "{runOnly: ['color-contrast']}")
    page.emulate_media(color_scheme="light")
    return [*light, *(f"in dark: {violation}" for violation in dark)]


def violations_in_light(page: Page) -> list[str]:
    """The violations that axe reports on the page in its present colours."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return list_violations(page, "{}")


def list_violations(page: Page, rules: str) -> list[str]:
    page.evaluate(END_OF_TRANSITIONS)
    run = f"axe.run(document, {{resultTypes: ['violations'], ...{rules}}})"
    violations = page.evaluate(f"{run}.then(result => result.violations)")
    return [f"{violation['id']}: {node['html'][:160]}" for violation in violations for node in violation["nodes"]]
