"""The columns of a Hive table beside those of the table over it: what is compared, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from catalog.hive.model import HiveColumn
from catalog.iceberg.json import Json


class SchemaAuthority(StrEnum):
    """Whose columns count where both sides have changed one (`firn.hive.schema-conflict`)."""

    ASK = "ask"
    HIVE = "hive"
    FIRN = "firn"


class SchemaPush(StrEnum):
    """What of this side's columns Hive is given (`firn.hive.schema-push`)."""

    NONE = "none"
    ADDITIONS = "additions"
    ALL = "all"


class ColumnFileRule(StrEnum):
    """What a file must be like, as to one column, to be taken over while both sides differ."""

    FITS = "fits"
    """It lacks the column, or holds values of the table's type."""
    LACKS = "lacks"
    """It does not hold the column."""
    HOLDS = "holds"
    """It holds the column, without nulls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """Asked of the footers of files that come while both sides differ; `field` has Hive's name for the column."""

    rule: ColumnFileRule
    field: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDifference:
    """One column that the two sides do not have alike, by Hive's name for it, and what each of them has."""

    column: str
    what: str
    is_conflict: bool = False
    """Whether somebody has to decide: else it only waits to be given to Hive, or is not to be."""
    is_only_here: bool = False
    """Whether it is a column, or a part of one, that Hive's readers cannot see."""
    check: FileCheck | None = None
    hive: str | None = None
    """The column that it is, or is in, as Hive has it: name and type; None where Hive has none."""
    here: str | None = None
    """The same of the table's, by its name and in Hive's words."""


def parse_deciding_side(decides: SchemaAuthority, gives: SchemaPush, *, is_conflict: bool) -> str:
    """The policy that says what becomes of a difference, and what it says."""
    return f"firn.hive.schema-conflict={decides}" if is_conflict else f"firn.hive.schema-push={gives}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSides:
    """What is compared: columns when both sides were last in step, Hive's now, and the table's now.

    Partition columns are in the table's schema alone. `aliases` are the names of its name mapping, by field id:
    what Hive's files call a column. `former` are columns that both sides once had, see `SchemaDrift`; `history` are
    the schemas that the table ever had, oldest first. `needed` are columns that the table cannot be without.
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

    def is_needed(self, one: Json) -> bool:
        """Whether the table cannot be without a field of it."""
        identifiers = self.schema.get("identifier-field-ids") or ()
        return bool(one["required"] or one["id"] in identifiers or one["name"] in self.needed)


@dataclass(slots=True, kw_only=True)
class SchemaDrift:
    """What a comparison says."""

    schema: Json
    """The table's, with what is taken from Hive."""
    last_column_id: int
    aliases: list[tuple[int, str]]
    changes: list[str] = field(default_factory=list)
    """What is taken from Hive, in words."""
    baseline: tuple[HiveColumn, ...] = ()
    """The columns in which both sides are in step once that is taken, as Hive has them."""
    readable: tuple[HiveColumn, ...] = ()
    """The columns to read out of Hive's files, each as a type that holds what the table's does, part for part."""
    differences: list[SchemaDifference] = field(default_factory=list)
    former: dict[str, Json] = field(default_factory=dict)
    """Columns that both sides once had and Hive may have again, by Hive's name: each a field, and its files' names."""
    revived: list[str] = field(default_factory=list)
    """Such columns that Hive has again: rows that were rewritten meanwhile have lost their values of it."""
    given: Mapping[SchemaPush, tuple[HiveColumn, ...]] = field(default_factory=dict)
    """Hive's columns once it was given what it may be given."""

    def next_id(self) -> int:
        """For a new field."""
        self.last_column_id += 1
        return self.last_column_id

    @property
    def conflicts(self) -> list[SchemaDifference]:
        """What somebody has to decide."""
        return [one for one in self.differences if one.is_conflict]

    @property
    def checks(self) -> list[FileCheck]:
        """What files must be like to be taken over meanwhile."""
        return [one.check for one in self.differences if one.check is not None]

    @property
    def sentence(self) -> str | None:
        """The conflicts in words; None when there is none."""
        return "; ".join(one.what for one in self.conflicts) or None


def stored(columns: Sequence[HiveColumn]) -> list[list[Any]]:
    """Columns as a link keeps them."""
    return [[column.name, column.type, column.comment] for column in columns]


def restored(kept: Sequence[Sequence[Any]]) -> tuple[HiveColumn, ...]:
    """Columns as a link has kept them."""
    return tuple(HiveColumn(name=name, type=kind, comment=comment) for name, kind, comment in kept)
