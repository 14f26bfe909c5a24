"""Counts the rows without a key that an upgrade would take over, by the statistics of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catalog.errors import Invalid
from catalog.files.data_file import FileStats
from catalog.hive.upgrade_check import find_key_blockers
from catalog.iceberg.json import Json
from catalog.keyed.spec import KeySpec
from server.service.hive.hive_state import HiveState
from server.service.hive.task_columns import list_key_columns


@dataclass(slots=True)
class KeyNulls:
    """Counts nulls in the key columns and the sequence field, file by file."""

    columns: Sequence[Json]
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, state: HiveState, spec: KeySpec | None, schema: Json) -> KeyNulls:
        """Start at zero. Without a key there is nothing to count."""
        return cls(list_key_columns(state.table, spec, schema))

    @property
    def column_ids(self) -> list[int]:
        """The field ids of the columns."""
        return [column["id"] for column in self.columns]

    def add(self, stats: FileStats) -> None:
        """Add the counts of a file. Raises Invalid if its statistics lack them."""
        for column in self.columns:
            name = column["name"]
            self.counts[name] = self.counts.get(name, 0) + stats.count_nulls(column["id"], name)

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
