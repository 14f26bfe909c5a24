"""From computed rows to the one commit: what differs from the target's rows is written, all else is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import quote_name
from firn.protocol.pipelines import Pins
from firn.protocol.validators import ValidatorResult
from firn.spark.errors import is_refusal, is_uncertain
from firn.spark.target import Target
from optimizer.pipelines.auditing import Audit, AuditedRows
from optimizer.pipelines.computing import Affected, Computing
from optimizer.pipelines.difference import (
    DELETE,
    OP,
    UNCHANGED,
    UPSERT,
    WRONG,
    check_keys,
    compare_rows,
    explain_wrong_keys,
    find_identity,
    unpack,
)
from optimizer.pipelines.target import PipelineTarget, fit_columns
from optimizer.pipelines.writing import append_changes, commit_step, overwrite_rows


@dataclass(frozen=True, kw_only=True)
class Published:
    """Rows of the target that were written, left out because they are the same, and deleted."""

    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    is_committed: bool = True
    snapshot_id: str | None = None
    validators: Sequence[ValidatorResult] = ()


@dataclass(frozen=True)
class Publishing:
    """The way of a run's rows into its target."""

    target: PipelineTarget
    pins: Pins
    computing: Computing
    stage: Callable[[str], None]
    audit: Audit | None = None
    """None for a table without validators."""

    def publish(self, rows: DataFrame, affected: Affected | None) -> Published:
        """Commit what differs. `rows` are those with affected values, or all. Nothing is committed if nothing differs.

        Raises Refused if keys are null or repeated, AuditFailed if a validator fails the run.
        """
        dropped: list[ValidatorResult] = []
        if self.audit is not None:
            self.stage("auditing")
            rows, dropped = self.audit.drop_wrong(self.computing.keep(rows))
        published = self._publish(rows, affected)
        return replace(published, validators=[*dropped, *published.validators])

    def _publish(self, rows: DataFrame, affected: Affected | None) -> Published:
        if not self.target.is_keyed:
            return self._overwrite(rows)
        keyed = self.target.load_keyed()
        computed = fit_columns(rows, self.target, {field.name: field for field in keyed.fields})
        if self.target.is_empty:
            return self._fill(computed, keyed)
        current = self.target.read_rows()
        return self._replace(computed, current if affected is None else affected.restrict(current), keyed)

    def _replace(self, computed: DataFrame, current: DataFrame, keyed: Target) -> Published:
        counted = Observation()
        operations = (UPSERT, DELETE, UNCHANGED, WRONG)
        counts = [F.count_if(F.col(OP) == op).alias(op) for op in operations]
        compared = compare_rows(computed, current, keyed).observe(counted, *counts)
        changes = self.computing.keep(compared.where(F.col(OP) != UNCHANGED))
        count = changes.count()
        rows = {op: int(counted.get[op]) for op in operations}
        if rows[WRONG]:
            explain_wrong_keys(computed, keyed)
            raise AssertionError(f"{rows[WRONG]} rows have a wrong key, and no key is wrong")
        published = Published(written=rows[UPSERT], unchanged=rows[UNCHANGED], deleted=rows[DELETE])
        if not count:
            return replace(published, is_committed=False)
        published = replace(published, validators=self._check_changes(changes, keyed))
        self.stage("committing")
        snapshot = self._commit(lambda options: append_changes(changes, keyed, options), computed, keyed)
        return replace(published, snapshot_id=snapshot)

    def _fill(self, computed: DataFrame, keyed: Target) -> Published:
        """The first rows of a table: there is nothing to compare with, and no reason to keep them in Spark."""
        written = _Counter()
        results = self._check_all(computed)
        self.stage("computing and committing")
        checked = check_keys(computed, keyed)
        snapshot = self._commit(lambda options: append_changes(written.of(checked), keyed, options), computed, keyed)
        return Published(written=written.rows, snapshot_id=snapshot, validators=results)

    def _check_changes(self, changes: DataFrame, keyed: Target) -> list[ValidatorResult]:
        """Run the validators on the rows that are written, and on the table with them."""
        if self.audit is None:
            return []
        self.stage("auditing")
        written = unpack(changes, keyed)
        changed = written.where(F.col(OP) == UPSERT).drop(OP)

        def read_audited() -> DataFrame:
            keys = find_identity(keyed)
            kept = self.target.read_rows().join(written.select(*map(quote_name, keys)), keys, "left_anti")
            return kept.select(*map(quote_name, keyed.columns)).unionByName(changed)

        return self.audit.check(AuditedRows(changed, read_audited, self.target.read_rows))

    def _check_all(self, computed: DataFrame) -> list[ValidatorResult]:
        """Run the validators on rows that are the whole table."""
        if self.audit is None:
            return []
        self.stage("auditing")
        current = (
            self.target.read_rows if self.target.is_keyed else partial(self.target.lake.spark.table, self.target.name)
        )
        return self.audit.check(AuditedRows(computed, lambda: computed, current))

    def _commit(self, append: Callable[[Mapping[str, str]], None], computed: DataFrame, keyed: Target) -> str | None:
        try:
            return commit_step(self.target, self.pins, append)
        except Exception as error:  # Java throws many types of errors
            if not is_refusal(error) and not is_uncertain(error):
                explain_wrong_keys(computed, keyed)
            raise

    def _overwrite(self, rows: DataFrame) -> Published:
        fields = {field.name: field for field in self.target.lake.spark.table(self.target.name).schema.fields}
        fitted, written = fit_columns(rows, self.target, fields), _Counter()
        results = self._check_all(fitted)
        self.stage("computing and committing")
        snapshot = commit_step(
            self.target,
            self.pins,
            lambda options: overwrite_rows(written.of(fitted), self.target.name, options),
        )
        return Published(written=written.rows, snapshot_id=snapshot, validators=results)


class _Counter:
    """Counts the rows of the last frame that it gave out, when Spark has written them."""

    def __init__(self) -> None:
        self._observed: Observation | None = None

    def of(self, frame: DataFrame) -> DataFrame:
        self._observed = Observation()
        return frame.observe(self._observed, F.count(F.lit(1)).alias("rows"))

    @property
    def rows(self) -> int:
        return 0 if self._observed is None else int(self._observed.get["rows"])
