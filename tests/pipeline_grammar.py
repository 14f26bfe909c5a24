"""Random queries over the tables of `pipeline_shapes`, of the kinds that pipelines keep incrementally."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.pipeline_shapes import SCHEMA


@dataclass
class Grammar:
    """Makes one query after another."""

    random: random.Random
    depth: int = 2
    aliases: int = 0

    def query(self) -> str:
        """A query, now and then with a CTE that it uses twice."""
        if self.random.random() < 0.12:
            sql, columns = self._query(1)
            left, right = columns[0], self.random.choice(columns)
            join = self.random.choice(["join", "left join"])
            return (
                f"with s as ({sql}) select a.{left} as x, count(*) as n from s a {join} s b on a.{left} = b.{right} "
                f"group by a.{left}"
            )
        return self._query(self.depth)[0]

    def _query(self, depth: int) -> tuple[str, list[str]]:
        """A query and the names of its columns."""
        if depth > 0 and self.random.random() < 0.15:
            return self._set_operation(depth)
        source, columns = self._from(depth)
        where = self._where(columns, depth)
        picked = self.random.sample(columns, min(len(columns), self.random.choice([1, 2, 3])))
        kind = self.random.random()
        if kind < 0.5:
            return self._grouped(source, where, picked[:2], columns)
        if kind < 0.7:
            return self._windowed(source, where, picked, columns)
        distinct = "distinct " if self.random.random() < 0.3 else ""
        outputs = ", ".join(f"{column} as c{number}" for number, column in enumerate(picked))
        return f"select {distinct}{outputs} from {source}{where}", [f"c{number}" for number in range(len(picked))]

    def _set_operation(self, depth: int) -> tuple[str, list[str]]:
        (left, left_columns), (right, right_columns) = self._query(depth - 1), self._query(depth - 1)
        count = min(len(left_columns), len(right_columns), 2)
        operator = self.random.choice(["union all", "union", "except", "intersect", "except all", "intersect all"])
        names = [f"c{number}" for number in range(count)]
        sides = []
        for sql, columns in ((left, left_columns), (right, right_columns)):
            outputs = ", ".join(f"x.{column} as {name}" for column, name in zip(columns, names, strict=False))
            sides.append(f"select {outputs} from ({sql}) x")
        return f" {operator} ".join(sides), names

    def _from(self, depth: int) -> tuple[str, list[str]]:
        """FROM with joins, and the columns that the query may read."""
        count = self.random.choice([1, 1, 2, 2, 3])
        text = ""
        columns: list[str] = []
        for number in range(count):
            source, names, alias = *self._source(depth), self._alias()
            if number == 0:
                text = f"{source} {alias}"
            else:
                kinds = ["join", "left join", "left join", "semi join", "anti join", "cross join"]
                kind = self.random.choice([*kinds, *(["full join"] * 2 if number == 1 else [])])
                text += f" {kind} {source} {alias}{self._on(kind, columns, names, alias)}"
                if kind in ("semi join", "anti join"):
                    continue
            columns += [f"{alias}.{name}" for name in names]
        return text, columns

    def _on(self, kind: str, columns: list[str], names: list[str], alias: str) -> str:
        if kind == "cross join":
            return ""
        sides = [self.random.choice(columns), f"{alias}.{self.random.choice(names)}"]
        self.random.shuffle(sides)
        on = f" on {sides[0]} = {sides[1]}"
        if self.random.random() < 0.3:
            other = self.random.choice(["2", self.random.choice(columns), f"{alias}.{self.random.choice(names)}"])
            on += f" and {alias}.{self.random.choice(names)} {self.random.choice(['<', '>=', '='])} {other}"
        return on

    def _source(self, depth: int) -> tuple[str, list[str]]:
        table = self.random.choice(list(SCHEMA))
        if depth <= 0 or self.random.random() < 0.55:
            return table, list(SCHEMA[table])
        sql, columns = self._query(depth - 1)
        return f"({sql})", columns

    def _where(self, columns: list[str], depth: int) -> str:
        conditions = []
        if self.random.random() < 0.35:
            conditions.append(f"{self.random.choice(columns)} {self.random.choice('><=')} {self.random.randrange(5)}")
        if self.random.random() < 0.12:
            conditions.append(f"{self.random.choice(columns)} is null")
        if self.random.random() < 0.12:
            conditions.append(f"{self.random.choice(columns)} = {self.random.choice(columns)}")
        if self.random.random() < 0.3:
            conditions.append(self._predicate(columns, depth))
        return f" where {' and '.join(conditions)}" if conditions else ""

    def _predicate(self, columns: list[str], depth: int) -> str:
        """EXISTS, NOT EXISTS or IN, over one table, a join, or a query."""
        outer, negated = self.random.choice(columns), self.random.choice(["", "not "])
        if self.random.random() < 0.35:
            sql, names = self._query(depth - 1) if depth > 0 else ("select k from e", ["k"])
            alias = self._alias()
            return f"{outer} in (select {alias}.{self.random.choice(names)} from ({sql}) {alias})"
        table, alias = self.random.choice(list(SCHEMA)), self._alias()
        source, names = f"{table} {alias}", [f"{alias}.{name}" for name in SCHEMA[table]]
        if self.random.random() < 0.4:
            other, second = self.random.choice(list(SCHEMA)), self._alias()
            kind = self.random.choice(["join", "left join"])
            more = [f"{second}.{name}" for name in SCHEMA[other]]
            source += f" {kind} {other} {second} on {self.random.choice(names)} = {self.random.choice(more)}"
            names += more
        condition = (
            f"{self.random.choice(names)} = {outer} and {self.random.choice(names)} > {self.random.randrange(3)}"
        )
        return f"{negated}exists (select 1 from {source} where {condition})"

    def _grouped(self, source: str, where: str, picked: list[str], columns: list[str]) -> tuple[str, list[str]]:
        forms = ("{0}", "{0}", "coalesce({0}, 0)", "{0} % 3", "case when {0} > 2 then 1 else 0 end")
        keys = [self.random.choice(forms).format(column) for column in picked]
        value = self.random.choice(columns)
        aggregate = self.random.choice(
            ["count(*)", f"sum({value})", f"min({value})", f"max({value})", f"count(distinct {value})"]
        )
        having = " having count(*) > 1" if self.random.random() < 0.2 else ""
        outputs = ", ".join(f"{key} as g{number}" for number, key in enumerate(keys))
        sql = f"select {outputs}, {aggregate} as n from {source}{where} group by {', '.join(keys)}{having}"
        return sql, [*(f"g{number}" for number in range(len(keys))), "n"]

    def _windowed(self, source: str, where: str, picked: list[str], columns: list[str]) -> tuple[str, list[str]]:
        partition, value = self.random.choice(picked), self.random.choice(columns)
        outputs = ", ".join(f"{column} as c{number}" for number, column in enumerate(picked))
        names = [f"c{number}" for number in range(len(picked))]
        if self.random.random() < 0.3:
            order = ", ".join(columns)
            qualify = f" qualify dense_rank() over (partition by {partition} order by {order}) <= 2"
            return f"select {outputs} from {source}{where}{qualify}", names
        sql = f"select {outputs}, sum({value}) over (partition by {partition}) as n from {source}{where}"
        return sql, [*names, "n"]

    def _alias(self) -> str:
        self.aliases += 1
        return f"a{self.aliases}"
