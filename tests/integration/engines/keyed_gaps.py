"""What engines read of keyed tables: the table in docs/connecting.md.

`test_connecting_page.py` fails when an engine reads more or less than this module says. To write the table into the
page: `python -m tests.integration.engines.keyed_gaps`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "connecting.md"
BEGIN, END = "<!-- keyed tables by engine: written by the tests -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Gap:
    """Kinds of tables that an engine cannot read, with its error. It fails in the same way on their base."""

    kinds: tuple[str, ...]
    error: str
    about: str


@dataclass(frozen=True)
class Engine:
    """What an engine reads. `vectors` is its error for format v3, on base too; None if it reads that."""

    vectors: str | None = None
    gaps: tuple[Gap, ...] = ()
    gap_in_v3: Gap | None = None
    """What it cannot read in v3 alone."""
    writes: str = "no"
    """What the tests of writes through the table's name have seen."""

    def find_error(self, kind: str, version: str) -> str | None:
        """A part of the error with which it refuses the table; None if it reads it."""
        if version == "3" and self.vectors is not None:
            return self.vectors
        gaps = self.gaps if version == "2" or self.gap_in_v3 is None else (*self.gaps, self.gap_in_v3)
        return next((gap.error for gap in gaps if kind in gap.kinds), None)


INSERTS, APPENDS = "`INSERT` upserts", "`append` upserts"
STATEMENTS = f"{INSERTS}; `UPDATE`, `DELETE`, `MERGE`"
HIVE = ("hive1", "hive2")
ENGINES: Mapping[str, Engine] = {
    "Spark 4.1": Engine(writes=STATEMENTS),
    "Spark 3.5": Engine(writes=STATEMENTS),
    "Flink": Engine(writes=f"{INSERTS}; streams upsert and delete (`write.upsert.enabled`)"),
    "Trino": Engine(vectors="Unexpected PUFFIN file format", writes=STATEMENTS),
    "DuckDB": Engine(
        gap_in_v3=Gap(
            ("spec",),
            "DuckDB would return wrong rows",
            "yes, unless the partitioning has changed (the server refuses the load)",
        ),
        writes=f"{STATEMENTS} with one action, in v2",
    ),
    "PyIceberg": Engine(
        gaps=(
            Gap(
                ("hive2",),
                "Field is required, and could not be found in the file",
                "files of Hive whose partition column is part of the key",
            ),
        ),
        writes=f"{APPENDS}; `delete` of whole files",
    ),
    "iceberg-go": Engine(
        gaps=(
            Gap(("evo2", "evo3"), "invalid binary serialization", "filters by a column whose type was widened"),
            Gap(HIVE, "iceberg-go would read null in column part", "files of Hive (the server refuses the load)"),
        ),
        writes=f"{APPENDS}, and `Delete`, to tables without partitions; over a base in v3 with format v3",
    ),
    "Polars": Engine(writes=APPENDS),
    "Daft": Engine(
        vectors="Corrupt footer",
        gaps=(
            Gap(HIVE, "carries no parquet field IDs", "files of Hive"),
            Gap(("evo2", "evo3"), "failed to fill whole buffer", "columns whose type was widened"),
        ),
        writes=APPENDS,
    ),
    "chdb": Engine(vectors="Position deletes are supported only for parquet format"),
    "client.scan": Engine(),
}
TITLES = {"chdb": "ClickHouse (chdb)", "client.scan": "Firn's `client.scan`"}


def render_table() -> str:
    """The table as Markdown, between its markers."""
    lines = ["| engine | v2, the default | v3 | cannot read | writes rows |", "| --- | --- | --- | --- | --- |"]
    for name, engine in ENGINES.items():
        v3 = "yes" if engine.gap_in_v3 is None else engine.gap_in_v3.about
        v3 = v3 if engine.vectors is None else f"no: `{engine.vectors}`"
        gaps = "; ".join(gap.about for gap in engine.gaps) or "–"
        lines.append(f"| {TITLES.get(name, name)} | yes | {v3} | {gaps} | {engine.writes} |")
    return BEGIN + "\n" + "\n".join(lines) + "\n\n" + END


def replace_table(page: str) -> str:
    """The page with the table of today."""
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: render_table(), page, flags=re.DOTALL)


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
