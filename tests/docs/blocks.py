"""The fenced blocks of the pages in docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
QUICKSTART = DOCS / "quickstart.md"
ADDRESS = "http://127.0.0.1:8630"


@dataclass(frozen=True)
class Block:
    """A fenced block; `language` is all that stands behind its opening fence."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for match in re.finditer(r"^```([a-z ]+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2], page[: match.start()].count("\n") + 1)


def documented_options() -> dict[str, str]:
    shown = next(block.text for block in blocks(QUICKSTART.read_text(encoding="utf-8")) if "spark-sql" in block.text)
    return dict(re.findall(r"--conf (\S+?)=(\S+)", shown))
