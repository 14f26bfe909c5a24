"""Predicates over columns that select whole partitions, for overwriting exactly those.

A partition predicate must match all rows of a file or none, or Iceberg refuses the overwrite. Null needs a term of
its own: no equality finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from firn.protocol.names import quote_name
from firn.protocol.tasks.merge import PartitionField

Value = str | None
"""A partition value as Spark writes it as text; None is null."""

MAX_PARTITIONS = 2000
"""More terms than this make a predicate that costs more to plan than the pruning saves."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SQL_TYPES = {"date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}


def predicate(
    fields: Sequence[PartitionField],
    types: Sequence[str],
    partitions: Iterable[Sequence[Value]],
    *,
    alias: str = "",
    limit: int | None = MAX_PARTITIONS,
) -> str | None:
    """SQL that is true for the rows of these partitions alone; "false" for none of them.

    `types` are the Spark types of the partition values. None when no predicate can say it: a date that Python has
    not, or too many partitions.
    """
    rows = sorted({tuple(row) for row in partitions}, key=repr)
    if limit is not None and len(rows) > limit:
        return None
    terms = [_Terms(field, kind, alias) for field, kind in zip(fields, types, strict=True)]
    try:
        return _any([_partition(terms, prefix, last) for prefix, last in _by_prefix(rows)])
    except (OverflowError, ValueError):
        return None


def exclude_partitions(
    fields: Sequence[PartitionField], types: Sequence[str], partitions: Iterable[Sequence[Value]]
) -> str:
    """SQL that is true for the rows of all other partitions; "true" when none is named. For identity partitions.

    Written without NOT around whole terms: it must be pushed down to the partitions, and null is in none of them.
    """
    rows = sorted({tuple(row) for row in partitions}, key=repr)
    terms = [_Terms(field, kind, "") for field, kind in zip(fields, types, strict=True)]
    return _joined([_not_in(terms, prefix, last) for prefix, last in _by_prefix(rows)], "AND", nothing="true")


class _Terms:
    """The condition on a column that the values of one partition field stand for."""

    def __init__(self, field: PartitionField, kind: str, alias: str) -> None:
        self.column = (f"{alias}." if alias else "") + quote_name(field.column)
        self.field = field
        self.kind = kind

    def any_of(self, values: Sequence[Value]) -> str:
        """The column lies in one of these partitions."""
        terms = [f"{self.column} IS NULL"] if None in values else []
        non_null = [value for value in values if value is not None]
        if self.field.transform != "identity":
            return _any(terms + [self._range(value) for value in non_null])
        if non_null:
            terms.append(f"{self.column} IN ({', '.join(self._literal(value, self.kind) for value in non_null)})")
        return _any(terms)

    def none_of(self, values: Sequence[Value]) -> str:
        """The column, null or not, lies in none of these identity partitions."""
        literals = [self._literal(value, self.kind) for value in values if value is not None]
        other = f"{self.column} NOT IN ({', '.join(literals)})" if literals else "true"
        if None in values:
            return f"({self.column} IS NOT NULL AND {other})" if literals else f"{self.column} IS NOT NULL"
        return f"({self.column} IS NULL OR {other})"

    def _range(self, value: str) -> str:
        """A time transform's partition is the time from its start to the next one's."""
        start, end = _bounds(self.field.transform, value)
        kind = _SQL_TYPES[self.field.type]
        low, high = (self._literal(_written(moment, self.field.type), kind) for moment in (start, end))
        return f"({self.column} >= {low} AND {self.column} < {high})"

    @staticmethod
    def _literal(value: str, kind: str) -> str:
        if kind == "binary":
            return f"X'{value}'"
        text = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{text}'" if kind == "string" else f"CAST('{text}' AS {kind})"


def _partition(terms: Sequence[_Terms], prefix: Sequence[Value], last: Sequence[Value]) -> str:
    parts = [term.any_of([value]) for term, value in zip(terms, prefix, strict=False)]
    return " AND ".join([*parts, terms[-1].any_of(last)])


def _not_in(terms: Sequence[_Terms], prefix: Sequence[Value], last: Sequence[Value]) -> str:
    parts = [term.none_of([value]) for term, value in zip(terms, prefix, strict=False)]
    return "(" + " OR ".join([*parts, terms[-1].none_of(last)]) + ")"


def _by_prefix(rows: Sequence[Sequence[Value]]) -> list[tuple[tuple[Value, ...], list[Value]]]:
    """Rows with all but the last value in common as one: a year of days is twelve terms, not 365."""
    grouped: dict[tuple[Value, ...], list[Value]] = {}
    for *prefix, last in rows:
        grouped.setdefault(tuple(prefix), []).append(last)
    return list(grouped.items())


def _any(terms: Sequence[str]) -> str:
    """One of the terms."""
    return _joined(terms, "OR", nothing="false")


def _joined(terms: Sequence[str], word: str, *, nothing: str) -> str:
    """A balanced tree: Spark's parser and Iceberg's visitors recurse into every OR and AND."""
    if not terms:
        return nothing
    if len(terms) == 1:
        return f"({terms[0]})"
    middle = len(terms) // 2
    left, right = (_joined(some, word, nothing=nothing) for some in (terms[:middle], terms[middle:]))
    return f"({left} {word} {right})"


def _bounds(transform: str, value: str) -> tuple[datetime, datetime]:
    if transform == "day":
        start = datetime.combine(date.fromisoformat(value), datetime.min.time(), tzinfo=UTC)
        return start, start + timedelta(days=1)
    number = int(value)
    if transform == "hour":
        return _EPOCH + timedelta(hours=number), _EPOCH + timedelta(hours=number + 1)
    months = number if transform == "month" else number * 12
    return _month(months), _month(months + (1 if transform == "month" else 12))


def _month(number: int) -> datetime:
    """The start of a month, counted from January 1970."""
    return datetime(1970 + number // 12, number % 12 + 1, 1, tzinfo=UTC)


def _written(moment: datetime, iceberg_type: str) -> str:
    if iceberg_type == "date":
        return moment.strftime("%Y-%m-%d").zfill(10)
    return moment.strftime("%Y-%m-%d %H:%M:%S").zfill(19)
