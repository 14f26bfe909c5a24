"""Figures of the notebooks, as SVG that a notebook shows without any package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

ROW = 22
COLOURS = {"kept": "#8aa0ad", "new": "#2f8f5b", "no longer used": "#c05a4a"}


class Figure:
    """An SVG that notebooks show as the result of a cell."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        return self.svg


def show_files(title: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Figure:
    """The live files of a table after a commit: kept, new, and no longer used since the commit.

    Both lists are results of `client.files(table)`.
    """
    old, new = ({file["path"]: file for file in files} for files in (before, after))
    lines = []
    for path, file in {**old, **new}.items():
        state = "kept" if path in old and path in new else "new" if path in new else "no longer used"
        name = path.rsplit("/", 1)[-1]
        text = f"{_store_of(file)} {name[:14]}…{name[-10:]}: {file.get('records', '?')} rows, {state}"
        lines.append((text, 1.0, COLOURS[state]))
    return _draw(title, sorted(lines))


def show_bars(title: str, values: Mapping[str, int]) -> Figure:
    """A bar for each value, named and sorted by its name."""
    largest = max([*values.values(), 1])
    lines = [(f"{name}: {value}", value / largest, COLOURS["kept"]) for name, value in sorted(values.items())]
    return _draw(title, lines)


def _store_of(file: Mapping[str, Any]) -> str:
    return str(file.get("store") or "")


def _draw(title: str, lines: Sequence[tuple[str, float, str]]) -> Figure:
    parts = [f'<text x="0" y="16" font-weight="bold">{escape(title)}</text>']
    for number, (text, share, colour) in enumerate(lines, 1):
        y = number * ROW
        parts.append(f'<rect x="0" y="{y + 4}" width="{max(2, round(120 * share))}" height="14" fill="{colour}"/>')
        parts.append(f'<text x="128" y="{y + 16}">{escape(text)}</text>')
    height = (len(lines) + 1) * ROW + 6
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{height}" font-family="sans-serif"'
    return Figure(f'{svg} font-size="13">{"".join(parts)}</svg>')
