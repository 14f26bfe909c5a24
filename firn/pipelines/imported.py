"""A folder that an import makes, and the report of what did not map."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlglot import exp

from firn.errors import Invalid
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.example import SCHEMA_FILE
from firn.pipelines.folder import read_folder
from firn.pipelines.forbidden import refuse_forbidden
from firn.pipelines.parsing import parse_query
from firn.protocol.pipeline_schema import FIRN_PIPELINE_SCHEMA

DIALECT: Final = "databricks"
"""The dialect of the files: Spark's, with QUALIFY, which sqlglot would write as a query with one more column."""
_HEAD: Final = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"


@dataclass(frozen=True)
class Gap:
    """A part of the old definition that the folder lacks: what it is about, and what to do instead."""

    subject: str
    text: str


@dataclass
class Import:
    """The result of an import. `statements` are SQL by name; `tables` are settings of `firn-pipeline.yml` by table."""

    name: str
    catalog: str = "lake"
    namespace: str | None = None
    statements: dict[str, str] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def miss(self, subject: str, text: str) -> None:
        """Report a gap."""
        self.gaps.append(Gap(subject[:200], text))

    def write(self, folder: Path) -> list[Path]:
        """Write the folder, and report what its definitions lack. Raises Invalid for a folder that is not empty.

        The names of files are made of letters, digits and underscores alone, whatever the names of tables are.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Invalid(f"{folder} is not empty", hint="name a new folder")
        if not self.statements:
            raise Invalid("nothing could be imported", hint="; ".join(gap.text for gap in self.gaps[:3]) or None)
        paths = [_write(folder / name, text) for name, text in self._list_files().items()]
        for problem in read_folder(folder).problems:
            self.miss(problem.path or str(folder), problem.message)
        return paths

    def _list_files(self) -> dict[str, str]:
        import yaml  # noqa: PLC0415 -- an extra

        spark: dict[str, Any] = {"name": self.name, "catalog": self.catalog}
        spark |= {"database": self.namespace} if self.namespace else {}
        spark["libraries"] = [{"glob": {"include": "transformations/**"}}]
        settings: dict[str, Any] = {"version": 1}
        settings |= {"tables": self.tables} if self.tables else {}
        files = {
            "spark-pipeline.yml": yaml.safe_dump(spark, sort_keys=False, allow_unicode=True),
            "firn-pipeline.yml": _HEAD + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
            SCHEMA_FILE: json.dumps(FIRN_PIPELINE_SCHEMA, indent=2) + "\n",
        }
        for name, text in self.statements.items():
            files[_choose_file(name, files)] = text
        return files


def write_query(query: exp.Query) -> str:
    """A query as the files have it. Raises InvalidDefinition for what no definition may have."""
    refuse_forbidden(query)
    text = query.sql(DIALECT, pretty=True, comments=False)
    if "{{" in text or "{%" in text:
        raise InvalidDefinition("its SQL has braces, which Jinja would read", hint="write them with concat()")
    parse_query(text)
    return text


def _choose_file(name: str, used_names: Mapping[str, str]) -> str:
    stem, number = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:100].strip("_") or "table", 2
    path = f"transformations/{stem}.sql"
    while path.lower() in {other.lower() for other in used_names}:
        path, number = f"transformations/{stem}_{number}.sql", number + 1
    return path


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
