"""The tables of docs/pipelines.md; `python -m tests.docs.pipeline_tables` writes them into the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from firn.pipelines import incremental
from tests.pipeline_shapes import FULL, SCHEMA, SHAPES

PAGE: Final = Path(__file__).parents[2] / "docs" / "pipelines.md"
PARTS: Final = {
    "filter, projection": ("filter", "projection"),
    "`DISTINCT`": ("distinct",),
    "`GROUP BY`, any aggregate": ("group", "group by expression", "group by all"),
    "`HAVING`": ("having",),
    "inner join": ("inner join", "inner join group by dimension", "join using", "comma join"),
    "self join": ("self join",),
    "left join": ("left join", "left join group by dimension"),
    "full join, as the first join": ("full join", "full join group"),
    "`EXISTS`, `NOT EXISTS`": ("exists", "not exists", "exists over a join"),
    "`IN (query)`": ("in", "in, two columns", "in a grouped query"),
    "semi and anti join": ("semi join", "anti join"),
    "window with `PARTITION BY`": ("window over group", "named window"),
    "`QUALIFY`": ("qualify",),
    "`UNION [ALL]`": ("union all", "union"),
    "`EXCEPT [ALL]`, `INTERSECT [ALL]`": ("except", "intersect all"),
    "CTE, derived table": ("cte left join", "cte twice", "aggregate of aggregate"),
}


def write_incremental() -> str:
    """Each part of SQL with examples, and the scopes of their plans."""
    lines = ["| part | example | scope |", "| --- | --- | --- |"]
    for part, names in PARTS.items():
        for number, name in enumerate(names):
            scope = ", ".join(incremental(SHAPES[name], SCHEMA).scope)
            lines.append(f"| {part if number == 0 else ''} | `{SHAPES[name]}` | {scope} |")
    return "\n".join(lines)


def write_full() -> str:
    """Each reason with an example and the remedy."""
    lines = ["| reason | example | instead |", "| --- | --- | --- |"]
    for reason, (sql, _, _) in FULL.items():
        (first, *_) = incremental(sql, SCHEMA).reasons
        example = re.sub(r"\s+", " ", sql)
        lines.append(f"| {reason} | `{example}` | {first.remedy} |")
    return "\n".join(lines)


def fill(page: str) -> str:
    """The page with its tables."""
    for name, text in (("incremental", write_incremental()), ("full", write_full())):
        page = re.sub(
            rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)",
            lambda match, text=text: f"{match[1]}{text}\n{match[2]}",  # type: ignore[misc]
            page,
            count=1,
            flags=re.DOTALL,
        )
    return page


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf-8")), "utf-8")
