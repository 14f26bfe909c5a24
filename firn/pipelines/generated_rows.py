"""Random rows of tables, and random changes of them, for tests that compare an incremental run with a full one.

The values of a type are few, so that rows of two tables meet in joins and groups have several rows. The literals of the
query are among them, so that its conditions hold for some rows.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import exp

from firn.errors import Invalid
from firn.pipelines.parsing import DIALECT

Row: TypeAlias = tuple[Any, ...]
_FIRST_DAY = dt.date(2026, 1, 1)
_NULLS = 0.08
_MOST_LITERALS = 20
_VALUES = 5
"""The number of different values of a type, literals aside."""


@dataclass(frozen=True)
class RowSource:
    """Makes rows of one table. Raises Invalid for a table with a column of a nested or unknown type."""

    table: str
    columns: Mapping[str, str]
    literals: Sequence[str]
    chance: random.Random

    def __post_init__(self) -> None:
        for column, type_ in self.columns.items():
            if _find_maker(type_) is None:
                raise Invalid(
                    f"{self.table}.{column} is of type {type_}: random rows have flat types alone",
                    hint="describe such rows in tests/*.yml",
                )

    def make(self, count: int) -> list[Row]:
        """Random rows."""
        return [tuple(self._value(type_) for type_ in self.columns.values()) for _ in range(count)]

    def change(self, rows: Sequence[Row]) -> list[Row]:
        """The rows after a few inserts, deletes and updates."""
        changed = list(rows)
        for _ in range(self.chance.choice([1, 1, 2, 4])):
            kind = self.chance.random()
            if kind < 0.35 or not changed:
                changed += self.make(1) * self.chance.choice([1, 1, 2])
            elif kind < 0.6:
                changed.pop(self.chance.randrange(len(changed)))
            else:
                self._update(changed)
        return changed

    def _update(self, rows: list[Row]) -> None:
        row, column = self.chance.randrange(len(rows)), self.chance.randrange(len(self.columns))
        values = list(rows[row])
        values[column] = self._value(list(self.columns.values())[column])
        rows[row] = tuple(values)

    def _value(self, type_: str) -> Any:
        if self.chance.random() < _NULLS:
            return None
        make = _find_maker(type_)
        assert make is not None  # noqa: S101 -- checked before
        fitting = [value for literal in self.literals if (value := _parse(type_, literal)) is not None]
        if fitting and self.chance.random() < 0.4:
            return self.chance.choice(fitting)
        return make(self.chance.randrange(_VALUES), type_)


def find_literals(queries: Iterable[exp.Expr]) -> list[str]:
    """The texts of the literals in queries, some of them if there are many."""
    texts = {literal.name: None for query in queries for literal in query.find_all(exp.Literal)}
    return list(texts)[:_MOST_LITERALS]


def _make_decimal(number: int, type_: str) -> Decimal:
    scale = int((type_.partition(",")[2] or "0)").strip(" )"))
    return Decimal(number).scaleb(-min(scale, 1)).quantize(Decimal(1).scaleb(-scale))


_MAKERS: Mapping[str, Callable[[int, str], Any]] = {
    "BOOLEAN": lambda number, _: number % 2 == 0,
    "TINYINT": lambda number, _: number,
    "SMALLINT": lambda number, _: number,
    "INT": lambda number, _: number,
    "BIGINT": lambda number, _: number,
    # Sums of such values do not depend on the order of addition.
    "FLOAT": lambda number, _: number / 4,
    "DOUBLE": lambda number, _: number / 4,
    "DECIMAL": _make_decimal,
    "TEXT": lambda number, _: "abcde"[number],
    "BINARY": lambda number, _: bytes([number]),
    "DATE": lambda number, _: _FIRST_DAY + dt.timedelta(days=number),
    "TIMESTAMP": lambda number, _: dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=7 * number),
    "TIMESTAMPNTZ": lambda number, _: dt.datetime(2026, 1, 1) + dt.timedelta(hours=7 * number),  # noqa: DTZ001
}
_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "TINYINT": int,
    "SMALLINT": int,
    "INT": int,
    "BIGINT": int,
    "TEXT": str,
    "DATE": dt.date.fromisoformat,
}
_LARGEST = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}


def _name_type(type_: str) -> str:
    """Sqlglot's name of a type."""
    built = exp.DataType.build(type_, dialect=DIALECT).this
    names = {"VARCHAR": "TEXT", "CHAR": "TEXT", "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP"}
    return names.get(built.name, str(built.name))


def _find_maker(type_: str) -> Callable[[int, str], Any] | None:
    return None if type_ == "unknown" else _MAKERS.get(_name_type(type_))


def _parse(type_: str, literal: str) -> Any:
    """The literal as a value of the type; None if it is none."""
    name = _name_type(type_)
    parse = _PARSERS.get(name)
    try:
        value = None if parse is None else parse(literal)
    except ValueError:
        return None
    return None if isinstance(value, int) and abs(value) >= _LARGEST[name] else value
