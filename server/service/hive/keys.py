"""Whether the rows of files have keys, as the files' own statistics tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catalog.errors import Invalid
from catalog.files.data_file import FileStats
from catalog.hive.model import HiveColumn
from catalog.hive.partition_names import to_partition_record
from catalog.hive.upgrade_check import find_key_blockers
from catalog.iceberg.json import Json
from catalog.keyed.spec import KeySpec
from server.service.hive.hive_state import HiveState

_REMOVE = "Remove these rows, or write them again with a value."


def list_key_fields(state: HiveState, spec: KeySpec | None, schema: Json) -> list[int]:
    """The columns in files, by field id, that may hold no nulls: the key's, and the sequence field."""
    return [column["id"] for column in KeyNulls.of(state, spec, schema).columns]


@dataclass(slots=True)
class KeyNulls:
    """Nulls in the columns that must not hold any, added up file by file."""

    columns: Sequence[Json]
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, state: HiveState, spec: KeySpec | None, schema: Json) -> KeyNulls:
        """Nothing counted yet; without a key nothing is to be counted."""
        if spec is None:
            return cls(())
        in_files = {column.name for column in state.table.columns} & {*spec.primary_key, spec.sequence_field}
        return cls([column for column in schema["fields"] if column["name"] in in_files])

    def add(self, stats: FileStats) -> None:
        """Invalid when the file does not say how many it holds."""
        for column in self.columns:
            self.counts[column["name"]] = self.counts.get(column["name"], 0) + _nulls(stats, column)

    def check(self, state: HiveState, spec: KeySpec | None) -> None:
        """Invalid when a key column or the sequence field holds nulls, as the footers count them.

        A row that does not say how new it is would stop every sync that has to read it.
        """
        if spec is None:
            return
        if spec.sequence_field and (count := self.counts.get(spec.sequence_field)):
            raise Invalid(
                f"the sequence field {spec.sequence_field!r} holds nulls ({count} found): such rows have no place in "
                "order",
                hint="choose another sequence field or none, or remove the rows first",
            )
        blockers = find_key_blockers(state.table, state.partitions, spec.primary_key, self.counts)
        if blockers:
            raise Invalid(blockers[0].message, hint=blockers[0].advice)


@dataclass(frozen=True, slots=True)
class Keys:
    """What says which row a row is, or how new, beside the files that come to a table."""

    columns: Sequence[Json]
    """Of those in files: the table's fields."""
    in_names: Sequence[tuple[int, HiveColumn]] = ()
    """Of those in partitions' names: each with its place there."""

    @classmethod
    def of(cls, state: HiveState, spec: KeySpec | None, schema: Json) -> Keys:
        key = {name.lower() for name in (spec.primary_key if spec else ())}
        numbered = enumerate(state.table.partition_columns)
        in_names = [(place, column) for place, column in numbered if column.name.lower() in key]
        return cls(KeyNulls.of(state, spec, schema).columns, in_names)

    def explain_missing_partition_key(self, values: Sequence[str]) -> str | None:
        """Why no row of a partition has a key."""
        for at, column in self.in_names:
            if to_partition_record([column], [values[at]]) == (None,):
                return f"its value of {column.name!r} is null, which no row may lack. {_REMOVE}"
        return None

    def explain_missing_key(self, stats: FileStats, *, is_registered: bool) -> str | None:
        """Why some rows of a file have no key; a file that does not say is for a job to read, not to be registered."""
        for column in self.columns:
            name = column["name"]
            if not is_registered and not stats.null_counts.get(column["id"]):
                continue
            try:
                count = _nulls(stats, column)
            except Invalid as error:
                return f"{error.message}. {error.hint}"
            if count:
                return f"{stats.location} holds nulls in {name!r} ({count} found), which no row may lack. {_REMOVE}"
        return None


def _nulls(stats: FileStats, column: Json) -> int:
    """Nulls of one column in one file; a file that lacks the column holds nothing but nulls."""
    if column["id"] in stats.null_counts:
        return stats.null_counts[column["id"]]
    if column["id"] in stats.value_counts or not stats.record_count:
        raise Invalid(
            f"{stats.location} does not say how many nulls column {column['name']!r} has",
            hint="write the file again with statistics, or choose other key columns",
        )
    return stats.record_count
