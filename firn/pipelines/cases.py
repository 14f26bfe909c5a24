"""Reads the tests of a pipeline, `tests/*.yml`: rows, changes of them, and the rows that a table must have then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from firn.errors import Invalid
from firn.yaml_reading import Node, Section, read_yaml

TextRow: TypeAlias = Mapping[str, str | None]
"""Texts of values by column; None is null, and a column that is not there is null, too."""
TextRows: TypeAlias = list[TextRow]
_FILES = ("*.yml", "*.yaml")
_MOST_FILES = 1_000
_MOST_ROWS = 10_000
_NULL = "tag:yaml.org,2002:null"
Qualify: TypeAlias = Callable[[str], str]


@dataclass(frozen=True)
class RowChanges:
    """Rows that leave a table, and rows that come."""

    delete: TextRows = field(default_factory=list)
    insert: TextRows = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One test. Names of tables are within the pipeline's catalog.

    The tables are computed from `given` in full. Then `change` changes inputs, and they are computed incrementally.
    `expect` has the rows of tables at the end; of their columns only those that a row names are compared.
    """

    path: str
    title: str
    given: Mapping[str, TextRows]
    change: Mapping[str, RowChanges]
    expect: Mapping[str, TextRows]


def read_cases(folder: Path, qualify: Qualify) -> list[Case]:
    """The tests of a folder, by path. `qualify` completes the name of a table. Raises Invalid with file and line."""
    paths = sorted(path for pattern in _FILES for path in (folder / "tests").glob(pattern) if path.is_file())
    if len(paths) > _MOST_FILES:
        raise Invalid(f"{folder / 'tests'} has {len(paths):,} files; {_MOST_FILES:,} are allowed")
    return [_read_case(path, folder, qualify) for path in paths]


def _read_case(path: Path, folder: Path, qualify: Qualify) -> Case:
    file = read_yaml(path, extra="pipelines", page="docs/pipelines.md")
    case = Case(
        path=str(path.relative_to(folder)),
        title=file.text("name") or path.stem.replace("_", " "),
        given=_read_tables(file, "given", qualify),
        change=_read_changes(file, qualify),
        expect=_read_tables(file, "expect", qualify),
    )
    if not case.expect:
        raise file.error("a test needs expect: {TABLE: [ROW, …]}")
    file.finish()
    return case


def _read_tables(file: Section, name: str, qualify: Qualify) -> dict[str, TextRows]:
    section = file.section(name)
    if section is None:
        return {}
    return {qualify(table): _read_rows(section, table) for table, _ in section.items()}


def _read_changes(file: Section, qualify: Qualify) -> dict[str, RowChanges]:
    section = file.section("change")
    if section is None:
        return {}
    changes: dict[str, RowChanges] = {}
    for table in [name for name, _ in section.items()]:
        change = section.section(table)
        if change is None:
            continue
        changes[qualify(table)] = RowChanges(_read_rows(change, "delete"), _read_rows(change, "insert"))
        change.finish()
    return changes


def _read_rows(section: Section, name: str) -> TextRows:
    rows = section.sections(name)
    if len(rows) > _MOST_ROWS:
        raise section.field_error(name, f"{name} has {len(rows):,} rows; {_MOST_ROWS:,} are allowed")
    return [{column.lower(): _read_value(row, column, node) for column, node in row.items()} for row in rows]


def _read_value(row: Section, column: str, node: Node) -> str | None:
    if getattr(node, "tag", None) == _NULL:
        return None
    if node.id != "scalar":
        raise row.error(f"{column} is not a text", node, hint="write nested values as JSON in quotes")
    return str(node.value)
