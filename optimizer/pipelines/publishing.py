"""From computed rows to those that a commit writes: what differs from the target's rows; all else is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.protocol.pipeline_pins import TargetPins
from firn.protocol.pipelines import RunResult
from firn.protocol.validators import ValidatorResult
from firn.spark.target import Target
from optimizer.pipelines.auditing import Audit, AuditedRows, KeptRows
from optimizer.pipelines.computing import Affected, Computing
from optimizer.pipelines.difference import (
    ABSENT,
    DELETE,
    OLD,
    OP,
    UNCHANGED,
    UPSERT,
    WRONG,
    check_keys,
    compare_columns,
    compare_rows,
    explain_wrong_keys,
    find_identity,
    unpack,
    write_unchanged,
)
from optimizer.pipelines.plain_target import compare_plain
from optimizer.pipelines.quarantine import Quarantine
from optimizer.pipelines.sampling import AFTER, BEFORE
from optimizer.pipelines.selection import Selection
from optimizer.pipelines.target import PipelineTarget, fit_columns
from optimizer.pipelines.writing import ChangeRows, PlainRows, WritableRows


@dataclass(frozen=True)
class ComputedTable:
    """A target of a run that is ready to be committed; nobody can read its rows yet.

    `rows` is None if the run writes nothing to the table: the commit then moves its checkpoint alone. `result` counts
    rows as far as they are known before Spark has written `rows`. `changes` are the rows that change, before and after,
    for a sample; None unless the commit may have to wait for approval. `quarantined` are the rows that validators have
    dropped, for the target's quarantine; None if there are none.
    """

    target: PipelineTarget
    pins: TargetPins
    result: RunResult
    rows: WritableRows | None = None
    changes: DataFrame | None = None
    quarantined: WritableRows | None = None

    def with_exact_state(self, exact_at: str) -> ComputedTable:
        """The same, with a checkpoint that says at which state of the table its rows are exact (rule 8.30)."""
        until = self.pins.until.model_copy(update={"exact_at": exact_at})
        return replace(self, pins=self.pins.model_copy(update={"until": until}))


@dataclass(frozen=True)
class Publishing:
    """The way of a run's rows into one target."""

    target: PipelineTarget
    pins: TargetPins
    computing: Computing
    stage: Callable[[str], None]
    audit: Audit | None = None
    """None for a table without validators."""
    quarantine: Quarantine | None = None
    """None for a table without validators that drop rows."""
    holds: bool = False
    """Whether the commit may have to wait for approval, so that people want to see some of the rows."""

    def prepare(self, rows: DataFrame, selection: Selection | None) -> ComputedTable:
        """Find what differs, and audit it. `rows` are the selected ones, or all.

        Raises Refused if keys are null or repeated, AuditFailed if a validator fails the run.
        """
        kept = self._drop_wrong(rows)
        return self._add_dropped(self._prepare(kept.rows, selection), kept)

    def prepare_append(self, rows: DataFrame) -> ComputedTable:
        """Audit rows that are added to a table without a key. Raises AuditFailed."""
        kept = self._drop_wrong(rows)
        return self._add_dropped(self._prepare_append(kept.rows), kept)

    def _drop_wrong(self, rows: DataFrame) -> KeptRows:
        if self.audit is None:
            return KeptRows(rows, [], 0)
        self.stage("auditing")
        return self.audit.drop_wrong(self.computing.keep(rows))

    def _add_dropped(self, computed: ComputedTable, kept: KeptRows) -> ComputedTable:
        """The table with what the validators have dropped before."""
        validators = [*kept.results, *computed.result.validators]
        result = computed.result.model_copy(update={"validators": validators, "dropped": kept.dropped})
        quarantine, writer = self.quarantine, self.pins.quarantine_writer
        rows = None if quarantine is None or writer is None else quarantine.build_rows(kept, self.pins.until.pinned_at)
        if quarantine is not None and rows is not None:
            result = result.model_copy(update={"quarantine": quarantine.table})
        return replace(computed, result=result, quarantined=rows)

    def _prepare(self, rows: DataFrame, selection: Selection | None) -> ComputedTable:
        if not self.target.is_keyed:
            return self._prepare_plain(rows, selection)
        keyed = self.target.load_keyed()
        computed = fit_columns(rows, self.target, self.target.read_fields(keyed))
        if self.target.is_empty:
            if self.target.fills:  # others have not brought any row yet
                return self._build(RunResult(mode=""), None)
            return self._prepare_first(computed, keyed)
        current = self.target.read_rows()
        if selection is None:
            return self._prepare_changes(computed, current, keyed)
        affected = selection.affected if self.pins.writes_unchanged else None
        return self._prepare_changes(computed, selection.restrict(current), keyed, affected)

    def _prepare_changes(
        self, computed: DataFrame, current: DataFrame, keyed: Target, affected: Affected | None = None
    ) -> ComputedTable:
        """With `affected`, right rows and deletes of affected keys without rows are written, too.

        That is rule 8.26 of docs/protocols.md.
        """
        counted = Observation()
        operations = (UPSERT, DELETE, UNCHANGED, WRONG, ABSENT)
        counts = [F.count_if(F.col(OP) == op).alias(op) for op in operations]
        compare = compare_columns if self.target.fills else compare_rows
        compared = compare(computed, current, keyed, keeps_old=self.holds).observe(counted, *counts)
        left_out = (UNCHANGED, ABSENT) if affected is None else (ABSENT,)
        changes = self.computing.keep(compared.where(~F.col(OP).isin(*left_out)))
        count = changes.count()
        rows = {op: int(counted.get[op]) for op in operations}
        if rows[WRONG]:
            explain_wrong_keys(computed, keyed)
            raise AssertionError(f"{rows[WRONG]} rows have a wrong key, and no key is wrong")
        result = RunResult(
            mode="",
            written=rows[UPSERT],
            unchanged=rows[UNCHANGED],
            deleted=rows[DELETE],
            absent=rows[ABSENT],
        )
        if affected is not None:
            changes = self.computing.keep(write_unchanged(changes, affected, keyed))
            count = changes.count()
            result = result.model_copy(update={"written": result.written + result.unchanged, "unchanged": 0})
        if not count:
            return self._build(self._check_unchanged(result, self.target.read_rows), None)
        result = result.model_copy(update={"validators": self._check_changes(changes, keyed)})
        explain = partial(explain_wrong_keys, computed, keyed)
        rows_to_write = ChangeRows(changes, keyed, explain, is_partial=bool(self.target.fills))
        return self._build(result, rows_to_write, partial(_pair_keyed, changes))

    def _prepare_first(self, computed: DataFrame, keyed: Target) -> ComputedTable:
        """The first rows of a table: there is nothing to compare with, and no reason to keep them in Spark."""
        result = RunResult(mode="", validators=self._check_all(computed))
        checked = self._keep_held(check_keys(computed, keyed))
        explain = partial(explain_wrong_keys, computed, keyed)
        return self._build(
            result, ChangeRows(checked, keyed, explain, is_counted=False), partial(_pair_new, checked, "row")
        )

    def _prepare_plain(self, rows: DataFrame, selection: Selection | None) -> ComputedTable:
        fitted = self._fit_plain(rows)
        if self.target.is_empty:
            fitted = self._keep_held(fitted)
            result = RunResult(mode="", validators=self._check_all(fitted))
            return self._build(result, PlainRows(fitted, self.target.name), partial(_pair_new, fitted))
        comparison = compare_plain(self.target, self.computing, fitted, selection)
        difference = comparison.difference
        result = RunResult(
            mode="", written=difference.written, unchanged=difference.unchanged, deleted=difference.deleted
        )
        if difference.is_empty:
            return self._build(self._check_unchanged(result, comparison.read_current), None)
        changed = difference.read_missing()
        validators = self._check(AuditedRows(changed, comparison.read_audited, comparison.read_current))
        result = result.model_copy(update={"validators": validators})
        return self._build(result, comparison.choose_rows(), difference.pair_rows)

    def _prepare_append(self, rows: DataFrame) -> ComputedTable:
        fitted = self.computing.keep(self._fit_plain(rows))
        result, current = RunResult(mode="", written=fitted.count()), self._read_plain
        if not result.written:
            return self._build(result, None)
        validators = self._check(AuditedRows(fitted, lambda: current().unionByName(fitted), current))
        rows_to_add = PlainRows(fitted, self.target.name, is_append=True)
        return self._build(
            result.model_copy(update={"validators": validators}), rows_to_add, partial(_pair_new, fitted)
        )

    def _fit_plain(self, rows: DataFrame) -> DataFrame:
        return fit_columns(rows, self.target, self.target.read_fields())

    def _read_plain(self) -> DataFrame:
        return self.target.lake.spark.table(self.target.name)

    def _keep_held(self, rows: DataFrame) -> DataFrame:
        """Rows that Spark has to compute only once, although a sample reads them before they are written."""
        return self.computing.keep(rows) if self.holds else rows

    def _build(
        self, result: RunResult, rows: WritableRows | None, pair: Callable[[], DataFrame] | None = None
    ) -> ComputedTable:
        """`pair` gives the changed rows, before and after."""
        changes = pair() if self.holds and pair is not None else None
        return ComputedTable(self.target, self.pins, result, rows, changes)

    def _check_changes(self, changes: DataFrame, keyed: Target) -> list[ValidatorResult]:
        """Run the validators on the rows that are written, and on the table with them."""
        if self.audit is None:
            return []
        written = unpack(changes, keyed)
        changed = written.where(F.col(OP) == UPSERT).drop(OP)

        def read_audited() -> DataFrame:
            keys = find_identity(keyed)
            kept = self.target.read_rows().join(written.select(*map(quote_name, keys)), keys, "left_anti")
            return kept.select(*map(quote_name, keyed.columns)).unionByName(changed)

        return self._check(AuditedRows(changed, read_audited, self.target.read_rows))

    def _check_unchanged(self, result: RunResult, read: Callable[[], DataFrame]) -> RunResult:
        """Rows that no run has changed have passed before. But a run may have missed that they are wrong by now."""
        if self.audit is None or not (audit := self.audit.select_full_comparisons()).validators:
            return result
        self.stage("auditing")
        return result.model_copy(update={"validators": audit.check(AuditedRows(read().limit(0), read, read))})

    def _check_all(self, computed: DataFrame) -> list[ValidatorResult]:
        """Run the validators on rows that are the whole table."""
        current = self.target.read_rows if self.target.is_keyed else self._read_plain
        return self._check(AuditedRows(computed, lambda: computed, current))

    def _check(self, rows: AuditedRows) -> list[ValidatorResult]:
        if self.audit is None:
            return []
        self.stage("auditing")
        return self.audit.check(rows)


def _pair_keyed(changes: DataFrame) -> DataFrame:
    """Changes of a keyed table as rows before and after them."""
    is_deleted, row = F.col(OP) == DELETE, F.col("row")
    before = F.when(is_deleted, row).otherwise(F.col(OLD))
    return changes.select(before.alias(BEFORE), F.when(~is_deleted, row).alias(AFTER))


def _pair_new(rows: DataFrame, name: str | None = None) -> DataFrame:
    """New rows, which are structs in a column of this name, or the frame's own."""
    after = F.struct(*map(quote_name, rows.columns)) if name is None else F.col(name)
    paired = rows.select(after.alias(AFTER))
    return paired.select(F.lit(None).cast(paired.schema[AFTER].dataType).alias(BEFORE), AFTER)
