"""A keyed table with partial columns as a plain dict (docs/protocols.md, rule 1.7), and random histories for it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

Values: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class PartialChange:
    """One change: `set_columns` are the columns that it sets besides the key; None for all."""

    op: str
    row: Values
    set_columns: frozenset[str] | None = None


def combine(rule: str | None, old: Any, new: Any) -> Any:
    """A column's value after a change that sets it; for a column with a rule, null is no value."""
    if rule is None:
        return new
    if old is None or new is None:
        return old if new is None else new
    match rule:
        case "sum":
            return old + new
        case "max" | "min":
            return (max if rule == "max" else min)(old, new)
        case _:
            return old if rule == "first" else new


def name_properties(rules: Mapping[str, str], groups: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table with rules for columns, and with the sequence field of each column in a group."""
    properties = {f"firn.column.{column}.rule": rule for column, rule in rules.items()}
    for sequence in {*groups.values()}:
        columns = [column for column, own in groups.items() if own == sequence and column != sequence]
        properties[f"firn.group.of {sequence}.columns"] = ", ".join(columns)
        properties[f"firn.group.of {sequence}.sequence-field"] = sequence
    return properties


class PartialModel:
    """Applies changes one by one. Rows that share a key in base are kept apart until a change sets all columns."""

    def __init__(
        self,
        key: Sequence[str],
        columns: Sequence[str],
        rows: Iterable[Values] = (),
        rules: Mapping[str, str] = MappingProxyType({}),
        groups: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.key, self.columns, self.rules, self.groups = tuple(key), tuple(columns), rules, groups
        self.rows: dict[Key, list[dict[str, Any]]] = {}
        for row in rows:
            self.rows.setdefault(self.key_of(row), []).append(dict(row))

    def key_of(self, row: Values) -> Key:
        return tuple(row[column] for column in self.key)

    def apply(self, change: PartialChange) -> None:
        key = self.key_of(change.row)
        if change.op == "D":
            self.rows.pop(key, None)
        elif change.set_columns is None and not (self.rules or self.groups):
            self.rows[key] = [{column: change.row.get(column) for column in self.columns}]
        else:
            new = {column: change.row.get(column) if column in self.key else None for column in self.columns}
            set_columns = self.columns if change.set_columns is None else change.set_columns
            for row in self.rows.setdefault(key, [new]):
                lost = self._list_lost(row, change, {*set_columns})
                for column in set_columns:
                    if column not in self.key and column not in lost:
                        row[column] = combine(self.rules.get(column), row[column], change.row.get(column))

    def _list_lost(self, row: Values, change: PartialChange, set_columns: set[str]) -> set[str]:
        """The columns in groups that the change does not set in this row: it names a part of the group, or is late."""
        lost = set[str]()
        for sequence in {*self.groups.values()}:
            members = {column for column, own in self.groups.items() if own == sequence}
            old, new = row[sequence], change.row.get(sequence)
            if not members <= set_columns or (old is not None and (new is None or new < old)):
                lost |= members
        return lost

    def list_rows(self) -> list[tuple[Any, ...]]:
        """All rows as tuples, sorted."""
        rows = (tuple(row[column] for column in self.columns) for rows in self.rows.values() for row in rows)
        return sorted(rows, key=repr)


def make_random_change(
    rng: random.Random, row: Values, key: Sequence[str], writers: Sequence[frozenset[str]]
) -> PartialChange:
    """A change by one of the writers, each of which knows some columns, by one that knows all, or a delete.

    Half of the partial changes have values in columns that they do not set, and half of the deletes have values, too:
    nothing may read them.
    """
    kind = rng.random()
    bare = {column: value if column in key else None for column, value in row.items()}
    if kind < 0.15:
        return PartialChange("D", row if rng.random() < 0.5 else bare, rng.choice([None, frozenset[str](), *writers]))
    if kind < 0.3:
        return PartialChange("U", row)
    set_columns = rng.choice(
        [*writers, frozenset(rng.sample(sorted(row.keys() - {*key}), rng.randrange(len(row) - len(key))))]
    )
    kept = row if rng.random() < 0.5 else {**bare, **{column: row[column] for column in set_columns}}
    return PartialChange(rng.choice("IU"), kept, set_columns)
