"""Checks by the statistics of files whether all rows have keys."""

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
    """The field ids of columns in files that must not hold nulls: the key columns and the sequence field."""
    return [column["id"] for column in KeyNulls.of(state, spec, schema).columns]


@dataclass(slots=True)
class KeyNulls:
    """Counts nulls in the key columns and the sequence field, file by file."""

    columns: Sequence[Json]
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, state: HiveState, spec: KeySpec | None, schema: Json) -> KeyNulls:
        """Start at zero. Without a key there is nothing to count."""
        if spec is None:
            return cls(())
        in_files = {column.name for column in state.table.columns} & {*spec.primary_key, spec.sequence_field}
        return cls([column for column in schema["fields"] if column["name"] in in_files])

    def add(self, stats: FileStats) -> None:
        """Add the counts of a file. Raises Invalid if its statistics lack them."""
        for column in self.columns:
            self.counts[column["name"]] = self.counts.get(column["name"], 0) + _nulls(stats, column)

    def check(self, state: HiveState, spec: KeySpec | None) -> None:
        """Raise Invalid if the footers count nulls in a key column or in the sequence field.

        A row without a sequence value would stop every sync that has to read it.
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
    """The key columns and the sequence field of new files."""

    columns: Sequence[Json]
    """The table's fields of the columns that files hold."""
    in_names: Sequence[tuple[int, HiveColumn]] = ()
    """The columns in partition names, each with its position there."""

    @classmethod
    def of(cls, state: HiveState, spec: KeySpec | None, schema: Json) -> Keys:
        key = {name.lower() for name in (spec.primary_key if spec else ())}
        numbered = enumerate(state.table.partition_columns)
        in_names = [(place, column) for place, column in numbered if column.name.lower() in key]
        return cls(KeyNulls.of(state, spec, schema).columns, in_names)

    def explain_missing_partition_key(self, values: Sequence[str]) -> str | None:
        """Explain why no row of a partition has a key; None if its values are complete."""
        for at, column in self.in_names:
            if to_partition_record([column], [values[at]]) == (None,):
                return f"its value of {column.name!r} is null, which no row may lack. {_REMOVE}"
        return None

    def explain_missing_key(self, stats: FileStats, *, is_registered: bool) -> str | None:
        """Explain why rows of a file lack a key. A job has to read a file without counts; base cannot register it."""
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
    """Count the nulls of a column in a file. In a file without the column, every row is null."""
    if column["id"] in stats.null_counts:
        return stats.null_counts[column["id"]]
    if column["id"] in stats.value_counts or not stats.record_count:
        raise Invalid(
            f"{stats.location} does not say how many nulls column {column['name']!r} has",
            hint="write the file again with statistics, or choose other key columns",
        )
    return stats.record_count
