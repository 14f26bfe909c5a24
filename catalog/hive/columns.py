"""Input and result of the comparison of a Hive table's columns with the linked table's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from catalog.hive.model import HiveColumn
from catalog.iceberg.json import Json


class SchemaAuthority(StrEnum):
    """The side that wins if both sides changed a column (`firn.hive.schema-conflict`)."""

    ASK = "ask"
    HIVE = "hive"
    FIRN = "firn"


class SchemaPush(StrEnum):
    """The changes of the table's columns that a publish pushes to Hive (`firn.hive.schema-push`)."""

    NONE = "none"
    ADDITIONS = "additions"
    ALL = "all"


class ColumnFileRule(StrEnum):
    """The condition on one column of a file, under which a sync takes the file over while both sides differ."""

    FITS = "fits"
    """It lacks the column, or holds values of the table's type."""
    LACKS = "lacks"
    """It does not hold the column."""
    HOLDS = "holds"
    """It holds the column, without nulls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """A check of the footers of files that arrive while both sides differ; `field` has Hive's name of the column."""

    rule: ColumnFileRule
    field: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDifference:
    """One column that differs, under Hive's name, and what each side has."""

    column: str
    what: str
    is_conflict: bool = False
    """Whether a user has to decide. Otherwise a publish pushes it to Hive, or a policy forbids that."""
    is_only_here: bool = False
    """Whether it is a column, or a part of one, that only the table has."""
    check: FileCheck | None = None
    hive: str | None = None
    """The whole column in Hive: name and type; None if Hive lacks it."""
    here: str | None = None
    """The whole column in the table: its name there, and Hive's type if there is one; None if the table lacks it."""


def parse_deciding_side(decides: SchemaAuthority, gives: SchemaPush, *, is_conflict: bool) -> str:
    """The policy that decides about a difference, with its value."""
    return f"firn.hive.schema-conflict={decides}" if is_conflict else f"firn.hive.schema-push={gives}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSides:
    """The three sides of a comparison: the columns when both sides last agreed, Hive's now, and the table's now.

    Only the table's schema has the partition columns. `aliases` are the names in its name mapping, by field id: the
    names of columns in Hive's files. `former` are columns that both sides had before, see `SchemaDrift`. `history` has
    all earlier schemas of the table, oldest first. `needed` are columns that the table cannot lose.
    """

    baseline: Sequence[HiveColumn]
    hive: Sequence[HiveColumn]
    schema: Json
    last_column_id: int
    aliases: Sequence[tuple[int, str]] = ()
    former: Mapping[str, Json] = field(default_factory=dict)
    history: Sequence[Json] = ()
    partition_columns: Collection[str] = ()
    needed: Collection[str] = ()
    decides: SchemaAuthority = SchemaAuthority.ASK

    def is_needed(self, field: Json) -> bool:
        """Whether the table cannot lose this field."""
        identifiers = self.schema.get("identifier-field-ids") or ()
        return bool(field["required"] or field["id"] in identifiers or field["name"] in self.needed)


@dataclass(slots=True, kw_only=True)
class SchemaDrift:
    """The result of a comparison."""

    schema: Json
    """The table's schema with the changes taken from Hive."""
    last_column_id: int
    aliases: list[tuple[int, str]]
    changes: list[str] = field(default_factory=list)
    """The changes taken from Hive, for people."""
    baseline: tuple[HiveColumn, ...] = ()
    """Hive's columns in which both sides agree after these changes."""
    readable: tuple[HiveColumn, ...] = ()
    """The columns to read from Hive's files, each with a type that holds the table's values, part by part."""
    differences: list[SchemaDifference] = field(default_factory=list)
    former: dict[str, Json] = field(default_factory=dict)
    """Columns that both sides had before and Hive may add again, by Hive's name: the field, and its names in files."""
    revived: list[str] = field(default_factory=list)
    """Former columns that Hive added again. Rows that a job rewrote meanwhile have lost their values."""
    pushed: Mapping[SchemaPush, tuple[HiveColumn, ...]] = field(default_factory=dict)
    """Hive's columns after a push, for each policy."""

    def next_id(self) -> int:
        """Assign an id to a new field."""
        self.last_column_id += 1
        return self.last_column_id

    @property
    def conflicts(self) -> list[SchemaDifference]:
        """The differences that a user has to decide."""
        return [difference for difference in self.differences if difference.is_conflict]

    @property
    def checks(self) -> list[FileCheck]:
        """The checks that arriving files must pass meanwhile."""
        return [difference.check for difference in self.differences if difference.check is not None]

    @property
    def sentence(self) -> str | None:
        """The conflicts, for people; None without any."""
        return "; ".join(difference.what for difference in self.conflicts) or None


def columns_to_json(columns: Sequence[HiveColumn]) -> list[list[Any]]:
    """The JSON that a link stores for columns."""
    return [[column.name, column.type, column.comment] for column in columns]


def columns_from_json(stored: Sequence[Sequence[Any]]) -> tuple[HiveColumn, ...]:
    """Columns from the JSON of a link."""
    return tuple(HiveColumn(name=name, type=kind, comment=comment) for name, kind, comment in stored)
