"""`python -m docsite OUT`: write the pages of the site into OUT/docs, for Zensical to build.

Zensical and its settings know nothing of Firn: the generated pages are files beside the written ones before it starts.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from docsite.commands import command_pages
from docsite.decisions import decisions_page
from docsite.routes import routes_page

ROOT = Path(__file__).parents[1]


def write_pages(out: Path) -> None:
    """Write all pages below `out`/docs, and the site's settings beside; what was there before goes away."""
    pages = out / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    shutil.copy(ROOT / "docsite" / "zensical.toml", out)
    generated = {
        **command_pages(),
        "reference/rest.md": routes_page((ROOT / "tests" / "contract" / "openapi.json").read_bytes()),
        "decisions/index.md": decisions_page(ROOT / "docs" / "decisions"),
    }
    for path, text in generated.items():
        target = pages / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
