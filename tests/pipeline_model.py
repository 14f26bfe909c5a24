"""Plans of pipelines against a full computation, on DuckDB: after each round of random changes both must be equal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import sqlglot

from firn.pipelines import Plan, incremental
from firn.pipelines.group_changes import CHANGES, CURRENT, UNSURE, GroupChanges
from firn.pipelines.plan import Step
from tests.pipeline_shapes import SCHEMA

Row = tuple[int | None, ...]
VALUES = {"id": 40, "k": 6, "g": 4, "v": 10, "t": 20, "city": 4, "w": 5, "flag": 2, "region": 2}
LARGEST = {"f": 18, "d": 8, "e": 8, "c": 5}


@dataclass
class Round:
    """What a round of changes led to."""

    affected: int
    rows: int
    unsure: int | None = None
    """The values that were recomputed although changes were added to the others; None if all were recomputed."""


@dataclass
class Model:
    """A query, its inputs, and the target that its plan keeps up to date. `seed` makes all that is random.

    With `adds_changes` it adds changes to groups where the plan can.
    """

    sql: str
    seed: object = 0
    key: Sequence[str] = ()
    adds_changes: bool = False

    def __post_init__(self) -> None:
        self.connection = _connect()
        self.random = random.Random(f"{self.sql}{self.seed}")
        self.plan: Plan = incremental(self.sql, SCHEMA, key=self.key)
        assert self.plan.is_incremental, (self.sql, self.plan.reasons)
        self.inputs = [source.name for source in self.plan.inputs]
        self.state = {name: self.random_rows(name, self.random.choice([0, 3, LARGEST[name]])) for name in self.inputs}
        self.held: dict[str, list[Row]] = {}
        self.followed: dict[frozenset[str], tuple[Step, ...]] = {}
        self.load_full()

    def load_full(self) -> None:
        """Compute the target from the state of the inputs."""
        for name, rows in self.state.items():
            self._load(f"t_{name}__new", rows)
            self._run(f"create or replace view {name} as select * from t_{name}__new")
        self._run(f"create or replace table target as {to_duckdb(self.plan.full())}")

    def run(self, rounds: int) -> list[Round]:
        """Change the inputs and follow the plan, so many times. Raises AssertionError at the first difference."""
        return [self._run_round() for _ in range(rounds)]

    def _run_round(self) -> Round:
        changed = self._choose_changed()
        old = self.state
        self.state = {name: self.change(name, rows) if name in changed else rows for name, rows in old.items()}
        return self.follow_states({name: old[name] for name in changed})

    def follow_states(self, old: Mapping[str, list[Row]]) -> Round:
        """Bring the target up to date; `old` has the earlier rows of the inputs that have changed."""
        changed = frozenset(old)
        self.followed.setdefault(changed, self.plan.affected(changed))
        for name in self.inputs:
            self._load_states(name, old.get(name, self.state[name]), self.state[name])
        result = self._follow(changed)
        self._compare(changed)
        return result

    def _choose_changed(self) -> frozenset[str]:
        """Inputs that change; few sets of them for each query, because their SQL costs more than the rounds."""
        if self.adds_changes and self.followed and self.random.random() < 0.8:  # changes of one input can be added
            changed = frozenset({self.random.choice(self.inputs)})
            self.followed.setdefault(changed, self.plan.affected(changed))
            return changed
        if len(self.followed) > 2:
            return self.random.choice(list(self.followed))
        chosen = {name for name in self.inputs if self.random.random() < 0.6} or {self.random.choice(self.inputs)}
        changed = frozenset(chosen if self.followed else self.inputs)
        self.followed.setdefault(changed, self.plan.affected(changed))
        return changed

    def _follow(self, changed: frozenset[str]) -> Round:
        """Do with the target what the plan says."""
        group_changes = self.plan.group_changes(changed) if self.adds_changes else None
        if group_changes is not None:
            return self._add_changes(group_changes)
        for step in self.followed[changed]:
            self._run(f"create or replace temp table {step.name} as {to_duckdb(step.sql)}")
        affected = self._run("select * from firn_affected")
        self._run(
            f"create or replace temp table computed as {to_duckdb(self.plan.rows(self._choose_values(affected)))}"
        )
        return Round(len(affected), self._replace("firn_affected", "computed"))

    def _replace(self, affected: str, computed: str) -> int:
        """Replace the target's rows with these values."""
        self._run(f"delete from target where exists (select 1 from {affected} a where {self._is_same('target', 'a')})")
        return int(self._run(f"insert into target select * from {computed}")[0][0])

    def _is_same(self, left: str, right: str) -> str:
        return " and ".join(f'{left}."{name}" is not distinct from {right}."{name}"' for name in self.plan.scope)

    def _add_changes(self, group_changes: GroupChanges) -> Round:
        """Add changes to the groups of the target, and recompute those that are unsure, as a run does."""
        self._run(f"create or replace temp table {CHANGES} as {to_duckdb(group_changes.changes)}")
        self._run(f"create or replace temp table touched as {to_duckdb(group_changes.affected)}")
        affected = f"exists (select 1 from touched a where {self._is_same('target', 'a')})"
        self._run(f"create or replace temp table {CURRENT} as select * from target where {affected}")
        self._run(f"create or replace temp table maintained as {to_duckdb(group_changes.maintained)}")
        scope = ", ".join(f'"{name}"' for name in self.plan.scope)
        self._run(
            f"create or replace temp table firn_affected as select distinct {scope} from maintained where {UNSURE}"
        )
        unsure = self._run("select count(*) from firn_affected")[0][0]
        others = f"not exists (select 1 from firn_affected a where {self._is_same('maintained', 'a')})"
        computed = f"select * exclude ({UNSURE}) from maintained where {others}"
        recomputed = f" union all {to_duckdb(self.plan.rows())}" if unsure else ""
        self._run(f"create or replace temp table computed as {computed}{recomputed}")
        return Round(len(self._run("select * from touched")), self._replace("touched", "computed"), unsure)

    def _choose_values(self, affected: list[Any]) -> dict[str, list[Any]]:
        """The values of some columns of the scope, by which the inputs are restricted."""
        names = self.random.choice([[], [], list(self.plan.pruned_columns()), list(self.plan.pruned_columns())[:1]])
        return {name: sorted({row[self.plan.scope.index(name)] for row in affected}, key=str) for name in names}

    def _compare(self, changed: frozenset[str]) -> None:
        expected, actual = Counter(self._run(to_duckdb(self.sql))), Counter(self._run("select * from target"))
        assert actual == expected, (
            f"{self.sql}\nseed {self.seed}, changed {sorted(changed)}, scope {self.plan.scope}\n"
            f"missing {expected - actual}\nsurplus {actual - expected}"
        )

    def _load_states(self, name: str, old: list[Row], new: list[Row]) -> None:
        """Load the four relations. The changed rows have only the columns that the plan reads, and differ in these."""
        columns = self.plan.read_columns()[name] or list(SCHEMA[name])[:1]
        sides = [Counter(_choose_columns(rows, name, columns)) for rows in (old, new)]
        before, after = sides[0] - sides[1], sides[1] - sides[0]
        if self.random.random() < 0.2 and old != new:  # rows that a rewrite of files only copied
            copied = Counter(row for row in (sides[0] & sides[1]).elements() if self.random.random() < 0.3)
            before, after = before + copied, after + copied
        for suffix, rows in (("old", old), ("new", new)):
            self._load(f"t_{name}__{suffix}", rows)
        for suffix, changed in (("before", before), ("after", after)):
            self._load(f"t_{name}__{suffix}", list(changed.elements()), columns)

    def _load(self, name: str, rows: list[Row], columns: Sequence[str] = ()) -> None:
        if self.held.get(name) == rows:
            return
        self.held[name] = rows
        known = columns or list(SCHEMA[name.removeprefix("t_").partition("__")[0]])
        self._run(f"create or replace table {name} ({', '.join(f'{column} int' for column in known)})")
        if rows:
            values = ", ".join(f"({', '.join('null' if v is None else str(v) for v in row)})" for row in rows)
            self._run(f"insert into {name} values {values}")

    def random_rows(self, name: str, count: int) -> list[Row]:
        """Rows of a table."""
        return [tuple(self._random_value(column) for column in SCHEMA[name]) for _ in range(count)]

    def _random_value(self, column: str) -> int | None:
        return None if column != "id" and self.random.random() < 0.08 else self.random.randrange(VALUES[column])

    def change(self, name: str, rows: list[Row]) -> list[Row]:
        """The rows after a few inserts, deletes and updates."""
        rows, columns = list(rows), list(SCHEMA[name])
        for _ in range(self.random.choice([1, 1, 2, 4])):
            kind = self.random.random()
            if kind < 0.35 or not rows:
                rows += self.random_rows(name, 1) * self.random.choice([1, 1, 2])
            elif kind < 0.6:
                rows.pop(self.random.randrange(len(rows)))
            else:
                row, column = self.random.randrange(len(rows)), self.random.randrange(len(columns))
                values = list(rows[row])
                values[column] = self._random_value(columns[column])
                rows[row] = tuple(values)
        return rows

    def _run(self, sql: str) -> list[Any]:
        return self.connection.execute(sql).fetchall()


def _choose_columns(rows: Sequence[Row], name: str, columns: Sequence[str]) -> list[Row]:
    """The rows of an input with some of its columns."""
    places = [list(SCHEMA[name]).index(column) for column in columns]
    return [tuple(row[place] for place in places) for row in rows]


@cache
def to_duckdb(sql: str) -> str:
    """SQL of Spark as SQL of DuckDB."""
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


@cache
def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    return connection


def count_affected(rounds: Sequence[Round]) -> int:
    """The affected values of all rounds."""
    return sum(round_.affected for round_ in rounds)
