"""The list of decisions, by the titles of their pages."""

from __future__ import annotations

import re
from pathlib import Path

from docsite.markdown import escape, table

HEADING = re.compile(r"^# (\d+\. )?")
INTRODUCTION = """# Decisions

Each page says what was decided, why, and what it costs. A later decision may replace an earlier one, and then says so.
"""


def decisions_page(directory: Path) -> str:
    """The page's text; `directory` holds a page NNNN-title.md for each decision."""
    rows = []
    for page in sorted(directory.glob("[0-9]*.md")):
        heading = page.read_text(encoding="utf-8").partition("\n")[0]
        rows.append((f"[{page.stem[:4]}]({page.name})", escape(HEADING.sub("", heading))))
    return "\n".join([INTRODUCTION, table(("number", "decision"), rows)])
