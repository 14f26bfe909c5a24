"""Inputs of a pipeline's table, of all kinds, and random commits to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.spark_fixtures import RunningServer

KINDS = ("v2 copies", "v2 deletes", "v3", "keyed", "keyed by sequence")
COLUMNS = "id BIGINT, k INT, v INT, note STRING, day INT, seq BIGINT"


@dataclass
class RandomInput:
    """A fact table `id, k, v, note, day, seq` of one kind, with random commits through Spark."""

    server: RunningServer
    name: str
    kind: str
    chance: random.Random
    merge: Callable[[str], None]
    sequence: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        mode = "copy-on-write" if "copies" in self.kind else "merge-on-read"
        properties = {f"write.{action}.mode": mode for action in ("delete", "update", "merge")}
        properties |= {"format-version": "2" if "v2" in self.kind else "3"}
        if self.is_keyed:
            properties |= {"firn.primary-key": "id", "firn.merge.mode": "rewrite"}
        if "sequence" in self.kind:
            properties |= {"firn.sequence-field": "seq"}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self.sql(f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ({listed})")
        self.add(30)

    @property
    def is_keyed(self) -> bool:
        return self.kind.startswith("keyed")

    def sql(self, statement: str) -> None:
        self.server.spark.sql(statement.format(t=f"lake.{self.name}"))

    def change(self) -> str:
        """One random commit; returns its name."""
        plain = [self.update, self.delete, self.overwrite, self.compact, self.touch, self.move]
        action = self.chance.choice(
            [self.insert, *([self.upsert, self.remove, self.merged] if self.is_keyed else plain)]
        )
        action()
        return action.__name__

    def rows(self, ids: list[int], op: str = "") -> str:
        values = (
            f"({number}, {self.chance.choice(['NULL', *map(str, range(5))])}, {self.chance.randrange(9)}, "
            f"'{self.chance.choice('ab')}', {number % 4}, {next(self.sequence)}{op})"
            for number in ids
        )
        return ", ".join(values)

    def add(self, number: int) -> None:
        ids = self.chance.sample(range(60), number)
        self.append(ids, "U") if self.is_keyed else self.sql(f"INSERT INTO {{t}} VALUES {self.rows(ids)}")

    def append(self, ids: list[int], op: str) -> None:
        columns = "id, k, v, note, day, seq, _op"
        rows = self.rows(ids, f", '{op}'")
        self.sql(f"INSERT INTO {{t}}.change ({columns}) VALUES {rows}")

    def few(self) -> list[int]:
        return self.chance.sample(range(60), self.chance.randint(1, 4))

    def insert(self) -> None:
        self.add(self.chance.randint(1, 3))

    def upsert(self) -> None:
        self.append(self.few(), "U")

    def remove(self) -> None:
        self.append(self.few(), "D")

    def merged(self) -> None:
        self.merge(self.name)

    def update(self) -> None:
        self.sql(f"UPDATE {{t}} SET v = v + 1 WHERE id IN ({', '.join(map(str, self.few()))})")

    def touch(self) -> None:
        self.sql(f"UPDATE {{t}} SET note = concat(note, 'x') WHERE id IN ({', '.join(map(str, self.few()))})")

    def move(self) -> None:
        self.sql(f"UPDATE {{t}} SET day = (day + 1) % 4, k = 2 WHERE id IN ({', '.join(map(str, self.few()))})")

    def delete(self) -> None:
        self.sql(f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, self.few()))}) OR v = 8")

    def overwrite(self) -> None:
        day = self.chance.randrange(4)
        self.sql(
            f"INSERT OVERWRITE {{t}} PARTITION (day = {day}) SELECT id, k, v, note, seq FROM {{t}} "
            f"WHERE day = {day} AND id % 5 <> {self.chance.randrange(5)}"
        )

    def compact(self) -> None:
        self.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")
