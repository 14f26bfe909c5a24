"""What a run computes of a table: rows with affected values, and rows of chunks of backfills.

A chunk is a condition over the scope. It selects computed rows and rows of the table, and both have the table's types
then: otherwise a hash of an INT and one of a BIGINT would differ, and the run would delete rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.pipelines.conditions import parse_condition
from firn.pipelines.errors import InvalidDefinition
from firn.protocol.backfills import RunChunks
from optimizer.errors import Refused
from optimizer.pipelines.computing import Affected, Computing
from optimizer.pipelines.target import PipelineTarget, fit_columns


@dataclass(frozen=True)
class Selection:
    """The rows of a run that does not compute all: those with `affected` values, and those of the `condition`.

    One of both may be None.
    """

    affected: Affected | None
    condition: str | None = None
    current: DataFrame | None = None
    """The selected ones of the target's rows, if the run has read them already."""

    @property
    def count(self) -> int:
        """The number of affected values."""
        return 0 if self.affected is None else self.affected.count

    def compute(self, computing: Computing, target: PipelineTarget) -> DataFrame:
        """Compute the selected rows. With a condition they have the target's columns."""
        parts = list[DataFrame]()
        if self.condition is not None:
            parts.append(self._find_chunks(fit_columns(computing.compute_full(), target, target.read_fields())))
        if self.affected is not None:
            rows = computing.compute_affected(self.affected)
            parts.append(self._find_others(rows if not parts else fit_columns(rows, target, target.read_fields())))
        return reduce(DataFrame.unionByName, parts)

    def restrict(self, rows: DataFrame) -> DataFrame:
        """The selected ones of the target's rows."""
        if self.current is not None:
            return self.current
        parts = [] if self.condition is None else [self._find_chunks(rows)]
        if self.affected is not None:
            parts.append(self.affected.restrict(self._find_others(rows)))
        return reduce(DataFrame.unionByName, parts)

    def exclude(self, rows: DataFrame) -> DataFrame:
        """The other ones of the target's rows."""
        others = self._find_others(rows)
        return others if self.affected is None else self.affected.exclude(others)

    def _find_chunks(self, rows: DataFrame) -> DataFrame:
        return rows.where(F.expr(self.condition or "false"))

    def _find_others(self, rows: DataFrame) -> DataFrame:
        """The rows of no chunk: a condition without a value says no."""
        if self.condition is None:
            return rows
        return rows.where(~F.coalesce(F.expr(self.condition), F.lit(False)))


def build_condition(chunks: RunChunks, scope: Sequence[str], deterministic: Collection[str]) -> str:
    """The condition of all chunks of a run, checked again: the optimizer trusts no SQL that it did not parse.

    Raises Refused for a condition that is not one over the scope.
    """
    try:
        where = parse_condition(chunks.where, scope, deterministic).sql
        parts = [parse_condition(chunk.condition, scope, deterministic).sql for chunk in chunks.chunks]
    except InvalidDefinition as problem:
        raise Refused(f"backfill {chunks.backfill}: {problem.message}; cancel it") from problem
    return f"({where}) AND ({' OR '.join(f'({part})' for part in parts)})"
