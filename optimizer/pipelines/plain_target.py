"""Runs of a table without a key: rows are values, of which the table has as many copies as the query gives.

A run compares the copies of each value. Files that have a value too often are written again without it, and missing
copies are added, all in one commit. A table whose copies are right gets no commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.spark.comparing import make_comparable
from optimizer.pipelines.computing import Computing
from optimizer.pipelines.plain_files import FILE, LINEAGE, PlainSnapshot, Replacement, add_lineage, open_plain
from optimizer.pipelines.sampling import AFTER, BEFORE
from optimizer.pipelines.selection import Selection
from optimizer.pipelines.staged_rows import StagedRows
from optimizer.pipelines.target import PipelineTarget
from optimizer.pipelines.writing import PlainRows, WritableRows

_ROW, _VALUE, _NEW, _OLD = "firn_row", "firn_value", "firn_new", "firn_old"


@dataclass(frozen=True)
class PlainDifference:
    """The values of which the table has another number of copies than the query gives.

    `values` has `firn_row`, `firn_value` and both numbers; `files` are the places of all files with a value that the
    table has too often.
    """

    values: DataFrame
    files: frozenset[str]
    written: int
    unchanged: int
    deleted: int

    @property
    def is_empty(self) -> bool:
        """Whether the table is right."""
        return not self.written and not self.deleted

    def read_added(self) -> DataFrame:
        """Rows to write: missing copies, and all copies that stay of values that their files lose."""
        few, many = F.col(_NEW) - F.col(_OLD), F.col(_NEW)
        copies = F.when(F.col(_NEW) > F.col(_OLD), few).otherwise(many)
        rows = self.values.where(copies > 0).select(_ROW, F.explode(F.sequence(F.lit(1), copies)))
        return rows.select(f"{_ROW}.*")

    def read_missing(self) -> DataFrame:
        """The rows that the table gets and did not have."""
        rows = self.values.where(F.col(_NEW) > F.col(_OLD))
        return rows.select(_ROW, F.explode(F.sequence(F.lit(1), F.col(_NEW) - F.col(_OLD)))).select(f"{_ROW}.*")

    def pair_rows(self) -> DataFrame:
        """The values with too few copies as new rows, and those with too many as deleted ones."""
        is_new = F.col(_NEW) > F.col(_OLD)
        return self.values.select(F.when(~is_new, F.col(_ROW)).alias(BEFORE), F.when(is_new, F.col(_ROW)).alias(AFTER))

    def read_gone(self) -> DataFrame:
        """The values that their files lose, as `firn_value`."""
        return self.values.where(F.col(_NEW) < F.col(_OLD)).select(_VALUE)


def compare_copies(computed: DataFrame, current: DataFrame) -> DataFrame:
    """For each value its number of copies in both frames, which have the same columns; `current` may have `_file`."""
    new = pack(computed).select(_ROW, _VALUE, F.lit(1).alias(_NEW), F.lit(0).alias(_OLD))
    old = pack(current.drop(FILE)).select(_ROW, _VALUE, F.lit(0).alias(_NEW), F.lit(1).alias(_OLD))
    sums = [F.sum(name).cast("int").alias(name) for name in (_NEW, _OLD)]
    return new.unionAll(old).groupBy(_VALUE).agg(F.first(_ROW).alias(_ROW), *sums)


def count_copies(counted: DataFrame) -> tuple[int, int, int]:
    """The rows to write, those that are right, and those to delete."""
    more, same = F.greatest(F.col(_NEW) - F.col(_OLD), F.lit(0)), F.least(_NEW, _OLD)
    less = F.greatest(F.col(_OLD) - F.col(_NEW), F.lit(0))
    sums = counted.agg(*(F.sum(part.cast("bigint")) for part in (more, same, less))).first()
    written, unchanged, deleted = (int(part or 0) for part in sums or (0, 0, 0))
    return written, unchanged, deleted


def select_different(counted: DataFrame) -> DataFrame:
    """The values whose numbers of copies differ."""
    return counted.where(F.col(_NEW) != F.col(_OLD))


def find_files(different: DataFrame, current: DataFrame) -> frozenset[str]:
    """The files that have a value too often; `current` has their places as `_file`."""
    gone = different.where(F.col(_NEW) < F.col(_OLD)).select(_VALUE)
    packed = pack(current, FILE)
    rows = packed.join(gone, packed[_VALUE].eqNullSafe(gone[_VALUE]), "left_semi").select(FILE).distinct().collect()
    return frozenset(str(row[0]) for row in rows)


def pack(rows: DataFrame, *more: str) -> DataFrame:
    """Rows as structs, and as values that Spark can compare, with more columns of theirs."""
    columns = [F.col(quote_name(name)) for name in rows.columns if name not in more]
    frame = rows.select(F.struct(*columns).alias(_ROW), *more)
    return frame.select(_ROW, make_comparable(F.col(_ROW), frame.schema[_ROW].dataType).alias(_VALUE), *more)


@dataclass(frozen=True)
class PlainComparison:
    """What a run of a table without a key has computed, and the table's rows that it replaces.

    `selection` is None if the run has computed all rows.
    """

    snapshot: PlainSnapshot
    table: str
    computed: DataFrame
    selection: Selection | None
    difference: PlainDifference

    def read_current(self) -> DataFrame:
        """The rows of the table."""
        return self.snapshot.read().drop(FILE)

    def read_audited(self) -> DataFrame:
        """The rows that the table would have."""
        if self.selection is None:
            return self.computed
        return self.selection.exclude(self.read_current()).unionByName(self.computed)

    def choose_rows(self) -> WritableRows:
        """What to write: files with wrong rows; all rows, if these are computed and most files are wrong."""
        if self.selection is None and 2 * len(self.difference.files) > self.snapshot.count_files():
            return PlainRows(self.computed, self.table, since=self.snapshot.snapshot_id)
        return ReplacedFiles(self.snapshot, self.difference)


def compare_plain(
    target: PipelineTarget, computing: Computing, computed: DataFrame, selection: Selection | None
) -> PlainComparison:
    """Compare computed rows, which have the target's columns, with those of the table as it is now."""
    snapshot = open_plain(target.lake.spark, target.parts)
    computed = computing.keep(computed)
    current = snapshot.read() if selection is None else selection.restrict(snapshot.read())
    current = current.select(*computed.columns, FILE)
    counted = computing.keep(compare_copies(computed, current))
    counts = count_copies(counted)
    different = select_different(counted)
    files = find_files(different, current) if counts[2] else frozenset[str]()
    return PlainComparison(snapshot, target.name, computed, selection, PlainDifference(different, files, *counts))


@dataclass(frozen=True)
class ReplacedFiles:
    """What a run writes to a plain table: some of its files again, without some values, and rows."""

    snapshot: PlainSnapshot
    difference: PlainDifference

    def commit(self, options: Mapping[str, str]) -> int | None:
        """Write new files, and let them replace the old ones. Raises TargetChanged, and Java's errors."""
        with self.snapshot.stage(self.snapshot.find_tasks(self.difference.files)) as replacement:
            self._write(replacement)
            replacement.commit(options)
        return None

    def stage(self, stack: ExitStack) -> StagedRows:
        """Write new files."""
        replacement = stack.enter_context(self.snapshot.stage(self.snapshot.find_tasks(self.difference.files)))
        self._write(replacement)
        return StagedRows(replacement.files, replacement.begin)

    def _write(self, replacement: Replacement) -> None:
        snapshot, difference = self.snapshot, self.difference
        added = add_lineage(difference.read_added().select(*map(quote_name, snapshot.columns)), snapshot)
        if replacement.tasks:
            added = _remove(replacement.read_old(), difference.read_gone()).unionByName(added)
        replacement.write(added)

    def explain(self) -> None:
        """Any rows are right."""


def _remove(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """The rows whose values are not among `gone`. Ids of rows are no part of their values."""
    ids = [name for name in rows.columns if name in LINEAGE]
    packed = pack(rows, *ids)
    kept = packed.join(gone, packed[_VALUE].eqNullSafe(gone[_VALUE]), "left_anti")
    return kept.select(f"{_ROW}.*", *ids)
