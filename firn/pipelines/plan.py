"""The plan of a query: how its table is kept up to date when inputs change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firn.pipelines.group_changes import GroupChanges
    from firn.pipelines.program import Program


class Strategy(StrEnum):
    """How a run computes the table."""

    INCREMENTAL = "incremental"
    FULL = "full"


class State(StrEnum):
    """The four relations of an input that the SQL of a plan reads.

    OLD is the input at the checkpoint, NEW at the run. BEFORE holds the rows that only OLD has, AFTER those that only
    NEW has. Both may hold more rows, as long as they are rows of their state.
    """

    OLD = "old"
    NEW = "new"
    BEFORE = "before"
    AFTER = "after"


class Access(StrEnum):
    """How the changes of an input give the affected values of the scope."""

    ROWS = "rows"  # the changed rows hold all columns of the scope: no join is made
    JOIN = "join"  # the changed rows are joined with the other inputs, at both states
    MATCH = "match"  # the rows of the other side that match a changed row, at both states


@dataclass(frozen=True)
class Reason:
    """A place in the query, what is wrong with it, and what to write instead. Line and column count from 1.

    `path` is None for a place in the file of the definition, and otherwise that of a view which the query reads.
    """

    text: str
    remedy: str
    line: int | None = None
    column: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        parts = [self.path] if self.path else []
        parts += [] if self.line is None else [f"line {self.line}"]
        place = f" ({', '.join(parts)})" if parts else ""
        return f"{self.text}{place}. {self.remedy}."


@dataclass(frozen=True)
class Input:
    """A table that the query reads. Its relations in the SQL of the plan begin with `prefix`."""

    name: str
    prefix: str
    columns: tuple[str, ...] = ()

    def relation(self, state: State) -> str:
        """The name under which the SQL of the plan reads a state of it."""
        return f"{self.prefix}__{state}"


@dataclass(frozen=True)
class Term:
    """How the changes of one occurrence of inputs in the query find the affected values.

    `inputs` are the names of the tables: one, or those that a derived table reads. `equal` are the columns of the scope
    that the changed rows hold, and `others` the rest, for which `joined` are read at both states.
    """

    inputs: tuple[str, ...]
    access: Access
    equal: tuple[str, ...]
    others: tuple[str, ...]
    joined: tuple[str, ...]
    derived: str | None = None
    is_added: bool = False
    """Whether the changes are added to counts and sums if no other input has changed."""


@dataclass(frozen=True)
class Step:
    """A temporary relation that the caller makes from SQL, before the SQL of later steps reads it by its name."""

    name: str
    sql: str


@dataclass(frozen=True)
class Column:
    """A column of the result. `type` is a type of Spark, None where it is unknown."""

    name: str
    type: str | None = None


@dataclass(frozen=True)
class Plan:
    """How to keep the table of a query up to date.

    An incremental run makes the relations of `affected(...)` in order. The last one, `firn_affected`, holds the values
    of `scope` whose rows may differ. It then computes `rows()`, deletes the table's rows with these values (nulls are
    values), and inserts the computed rows. A plan with the strategy FULL only has `full()` and says why in `reasons`.
    """

    strategy: Strategy
    columns: tuple[Column, ...]
    inputs: tuple[Input, ...]
    scope: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    _program: Program | None = field(default=None, repr=False, compare=False)
    _full: str = field(default="", repr=False)

    @property
    def is_incremental(self) -> bool:
        """Whether a run can compute only what changed."""
        return self.strategy is Strategy.INCREMENTAL

    def full(self) -> str:
        """SQL of the whole result at the new state."""
        return self._full

    def affected(self, changed: Collection[str]) -> tuple[Step, ...]:
        """SQL of the affected values, for the inputs that changed. Empty if no input of the query is among them.

        Raises ValueError for a plan that is not incremental.
        """
        return self._require_program().affected(frozenset(changed))

    def rows(self, values: Mapping[str, Sequence[Any]] | None = None) -> str:
        """SQL of the result's rows with affected values; it reads `firn_affected`.

        `values` may hold, for columns of the scope, all values in `firn_affected` (None, bool, int, str or date).
        The SQL then reads only rows of inputs that can have these values. Pass columns by which inputs
        are partitioned, and only if there are few values. Raises ValueError for a plan that is not incremental.
        """
        return self._require_program().rows(values or {})

    def group_changes(self, changed: Collection[str]) -> GroupChanges | None:
        """SQL that adds the changes of these inputs to counts, sums and extremes; None if rows have to be recomputed.

        It needs more than `affected` does. Together, BEFORE and AFTER have to hold the exact difference of both states:
        each row as often. And the table's rows have to be those of a full computation at the old state, which neither
        the plan nor Spark can see (docs/protocols.md, rules 8.29 and 8.30).
        """
        return None if self._program is None else self._program.group_changes(frozenset(changed))

    def maintained_by(self) -> tuple[str, ...]:
        """The inputs whose changes are added to counts, sums and extremes if no other input has changed."""
        return () if self._program is None else self._program.maintained_by()

    def pruned_columns(self) -> dict[str, tuple[str, ...]]:
        """For each column of the scope, the columns `input.column` that `rows(values)` restricts."""
        return {} if self._program is None else self._program.pruned_columns()

    def read_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each input that the query reads, at least: a change of another column changes no row.

        A plan that is not incremental says that it reads all of them.
        """
        if self._program is None:
            return {read.name: read.columns for read in self.inputs}
        return self._program.read_columns()

    def _require_program(self) -> Program:
        if self._program is None:
            raise ValueError("the plan is full: use full()")
        return self._program
