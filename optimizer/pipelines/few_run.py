"""A run with few changes: Spark finds them and computes rows, and this process does all other steps.

It reads the table's rows, adds changes to them, compares, and writes the changes that are left. A run that turns out to
have more rows, or others than this process compares as Spark does, is Spark's: every step says so with None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame

from firn.pipelines.group_changes import CHANGES, CURRENT, UNSURE, GroupChanges
from firn.protocol.names import join_name, quote_name
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipeline_pins import TargetPins
from firn.protocol.pipelines import RunResult, TableDefinition
from firn.spark.changes import plan_feed
from firn.spark.target import Target
from optimizer.pipelines.computing import Affected, Computing
from optimizer.pipelines.context import RunContext
from optimizer.pipelines.difference import explain_wrong_keys, find_identity
from optimizer.pipelines.few_groups import answer_few
from optimizer.pipelines.few_rows import FewChanges, can_compare, compare_few
from optimizer.pipelines.publishing import ComputedTable
from optimizer.pipelines.selection import Selection
from optimizer.pipelines.store_files import StoreFiles
from optimizer.pipelines.target import PipelineTarget, fit_columns
from optimizer.pipelines.tuning import Tuning
from optimizer.pipelines.writing import FewRows

OUT_OF_RANGE = (pa.ArrowInvalid, OverflowError, ValueError)
"""Of values that Spark has and Python or Arrow's casts do not, such as a day of the year 12000."""


@dataclass(frozen=True)
class AddedChanges:
    """A table whose rows got the changes of an input; how many values these affect, and how many were recomputed."""

    computed: ComputedTable
    affected: int
    recomputed: int


@dataclass(frozen=True)
class FewRun:
    """The steps of a run that need no Spark. `say` tells people why one of them does."""

    computing: Computing
    target: PipelineTarget
    pins: TargetPins
    files: StoreFiles
    say: Callable[[str], None]

    @property
    def can_compare(self) -> bool:
        """Whether this process compares rows of the table as Spark does."""
        return can_compare(self.keyed.fields, find_identity(self.keyed))

    @property
    def keyed(self) -> Target:
        """The facts for writes to the change store."""
        return self.target.load_keyed()

    def recompute(self, selection: Selection) -> ComputedTable | None:
        """Compute the rows with affected values, and compare them with those that the table has."""
        affected = selection.affected
        if affected is None or affected.rows is None:
            return None
        current = self._read_current(affected.rows, lambda: affected)
        computed = self._fit(self.computing.compute_affected(affected))
        rows = None if current is None else self.computing.collect(computed)
        if current is None or rows is None:
            return None
        return self._finish(rows, current, lambda: explain_wrong_keys(computed, self.keyed))

    def add_changes(self, changed: str, group_changes: GroupChanges, tuning: Tuning) -> AddedChanges | None:
        """Add changes of an input to the table's rows, and recompute the groups of which the SQL is not sure.

        If this is left to Spark, a view has the changes.
        """
        sizes = {name: pinned.measure() for name, pinned in self.computing.inputs.items()}
        with tuning.reading(sum(size if name == changed else total for name, (size, total) in sizes.items())):
            self.computing.show_changes(changed, group_changes.changes)
            changes, kept = self.computing.collect_few(self.computing.spark.sql(group_changes.changes))
        self.computing.name_view(CHANGES, kept)
        if changes is None:
            return None
        if not len(changes):
            return AddedChanges(ComputedTable(self.target, self.pins, RunResult(mode="")), 0, 0)
        try:
            affected = answer_few(group_changes.affected, {CHANGES: changes})
            current = self._read_current(affected, lambda: self.computing.use_affected(affected))
            if current is None:
                return None
            maintained = answer_few(group_changes.maintained, {CHANGES: changes, CURRENT: current})
            return self._recompute_unsure(maintained, affected, current)
        except (duckdb.Error, *OUT_OF_RANGE) as error:
            self.say(f"Spark adds the changes: {error}")
            return None

    def _recompute_unsure(self, maintained: pa.Table, affected: pa.Table, current: pa.Table) -> AddedChanges | None:
        """Recompute the values of which the SQL is not sure, and compare all rows with those that the table has."""
        scope = list(self.computing.plan.scope)
        unsure = maintained.filter(maintained[UNSURE]).select(scope)
        rows, doubtful = maintained.drop_columns(UNSURE), 0
        parts = list[pa.Table]()
        if len(unsure):
            values = unsure.group_by(scope).aggregate([])
            doubted_values = self.computing.use_affected(values)
            computed = self.computing.collect(self._fit(self.computing.compute_affected(doubted_values)))
            if computed is None:
                return None
            doubted = {*zip(*(values[name].to_pylist() for name in scope), strict=True)}
            listed = zip(*(rows[name].to_pylist() for name in scope), strict=True)
            rows = rows.filter(pa.array([row not in doubted for row in listed], pa.bool_()))
            parts, doubtful = [computed], len(values)
        schema = pa.schema([pa.field(field.name, field.type) for field in current.schema])
        parts = [_order(part, schema) for part in (rows, *parts)]
        done = self._finish(pa.concat_tables(parts), current, lambda: None)
        return None if done is None else AddedChanges(done, len(affected), doubtful)

    def _finish(self, rows: pa.Table, current: pa.Table, explain: Callable[[], None]) -> ComputedTable | None:
        """What is written; None if keys are wrong, and `explain` has not said so, or if Python lacks some value."""
        try:
            changes = compare_few(rows, current, self.keyed)
        except OUT_OF_RANGE as error:
            self.say(f"Spark compares the rows: {error}")
            return None
        if changes is None:
            explain()
            return None
        return self._build(changes)

    def _build(self, changes: FewChanges) -> ComputedTable:
        result = RunResult(
            mode="", written=changes.written, unchanged=changes.unchanged, deleted=changes.deleted, absent=0
        )
        handle = self.target.lake.table(self.target.table)
        rows = FewRows(changes.rows, self.keyed, handle, self.files, self.computing.spark)
        return ComputedTable(self.target, self.pins, result, rows if len(changes.rows) else None)

    def _fit(self, rows: DataFrame) -> DataFrame:
        return fit_columns(rows, self.target, self.target.read_fields(self.keyed))

    def _read_current(self, affected: pa.Table, find: Callable[[], Affected]) -> pa.Table | None:
        """The table's rows with affected values. Spark reads them where PyArrow cannot; None if they are not few."""
        target, scope = self.target, {name.lower(): name for name in self.computing.plan.scope}
        if {*scope} == {key.lower() for key in self.keyed.key}:
            keys = affected.select([scope[key.lower()] for key in self.keyed.key]).rename_columns([*self.keyed.key])
            version = int(target.shown.version or 0)
            plan = plan_feed(target.lake.client, target.path, join_name(target.parts), version, version)
            handle = target.lake.table(target.table)
            read = self.files.read_rows(handle, plan, keys)
            if isinstance(read, pa.Table):
                return read.select(self.keyed.columns)
            self.say(f"Spark reads the table's rows: {read}")
        return self.computing.collect(find().restrict(target.read_rows()).select(*map(quote_name, self.keyed.columns)))


def _order(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with these columns, whatever the case of their names, in this order and of these types."""
    names = {name.lower(): name for name in rows.column_names}
    return pa.table([rows[names[field.name.lower()]].cast(field.type) for field in schema], schema=schema)


def open_few(
    context: RunContext, definition: TableDefinition, computing: Computing, target: PipelineTarget, pins: TargetPins
) -> FewRun | None:
    """The way of a run with few changes; None if Spark takes all steps."""
    is_plain = definition.output_mode is OutputMode.UPSERT and not definition.validators and definition.code is None
    has_backfills = pins.chunks is not None or pins.replay is not None or pins.writes_unchanged
    has_few = target.is_keyed and not target.is_empty and target.shown.hides is None
    if context.files is None or not is_plain or has_backfills or not has_few:
        return None
    few = FewRun(computing, target, pins, context.files, context.say)
    return few if few.can_compare else None
