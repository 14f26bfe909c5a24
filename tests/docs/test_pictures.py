"""Every page of the console has a picture, and `docs/console.md` shows each picture once or more."""

from __future__ import annotations

import re
from pathlib import Path

from docsite.screenshots import GUARDED, OPEN, PICTURES

ROOT = Path(__file__).parents[2]
WITHOUT = {
    "/": "leads to Home",
    "*": "says that there is no such page",
    "/access": "leads to People",
}
"""Routes without a picture, and why."""


def test_every_page_has_a_picture() -> None:
    routes = re.findall(r"path: '([^']+)'", (ROOT / "web" / "src" / "routes.tsx").read_text(encoding="utf-8"))
    addresses = {name: picture.shows or picture.address for name, picture in {**OPEN, **GUARDED}.items()}
    shown = {
        route
        for route in routes
        if any(
            re.fullmatch(re.sub(r":\w+", "[^/]+", re.escape(route)), address.split("?")[0])
            for address in addresses.values()
        )
    }
    assert set(routes) - shown == set(WITHOUT)


def test_the_page_shows_every_picture() -> None:
    text = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"images/pages/([\w-]+)\.png", text))
    assert shown == {*OPEN, *GUARDED} == {picture.stem for picture in PICTURES.glob("*.png")}
