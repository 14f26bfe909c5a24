"""The distribution of a column: the statement that counts it, and what its rows say (docs/columns.md).

One statement answers, so the instant engine runs it like any other, with the rights and the limits of its user. Numbers
and times are counted in bars of equal width; texts, and columns with few different values, by their frequent values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.names import CatalogName, TableName

MOST_BARS = 20
MOST_VALUES = 10
"""Frequent values that are shown. A column with no more different values than these has values, and no bars."""
MOST_TEXTS, MOST_NUMBERS = 1_000_000, 1_000
"""Different values, by the engine's estimate, up to which they are counted: the engine holds all of them in memory."""
LONGEST_LABEL = 200
_DIALECT_TYPES = re.compile(r"(decimal|fixed)[(\[].*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000


class DistributionKind(StrEnum):
    """How the rows of a column are divided."""

    BARS = "bars"
    VALUES = "values"


class ColumnScale(StrEnum):
    """How values of a type become places on an axis."""

    WHOLE = "whole"
    DAY = "day"
    MOMENT = "moment"
    ZONED_MOMENT = "zoned_moment"
    TIME = "time"
    REAL = "real"
    TEXT = "text"


_SCALES = {
    "int": ColumnScale.WHOLE,
    "long": ColumnScale.WHOLE,
    "date": ColumnScale.DAY,
    "timestamp": ColumnScale.MOMENT,
    "timestamptz": ColumnScale.ZONED_MOMENT,
    "time": ColumnScale.TIME,
    "float": ColumnScale.REAL,
    "double": ColumnScale.REAL,
    "decimal": ColumnScale.REAL,
    "string": ColumnScale.TEXT,
    "uuid": ColumnScale.TEXT,
    "boolean": ColumnScale.TEXT,
}
_PLACES = {
    ColumnScale.WHOLE: "CAST(v AS HUGEINT)",
    ColumnScale.DAY: "CAST(v - CAST('1970-01-01' AS DATE) AS HUGEINT)",
    ColumnScale.MOMENT: "CAST(epoch_us(v) AS HUGEINT)",
    ColumnScale.ZONED_MOMENT: "CAST(epoch_us(v) AS HUGEINT)",
    ColumnScale.TIME: "CAST(epoch_us(CAST('1970-01-01' AS DATE) + v) AS HUGEINT)",
    ColumnScale.REAL: "CAST(v AS DOUBLE)",
    ColumnScale.TEXT: "CAST(NULL AS HUGEINT)",
}
_COUNTED_PARTS = (
    "SELECT 'rows', NULL, all_rows FROM firn_range",
    "SELECT 'known', NULL, known FROM firn_range",
    "SELECT 'nans', NULL, nans FROM firn_range",
    "SELECT 'infinite', NULL, infinite FROM firn_range",
    "SELECT 'different', NULL, different FROM firn_range",
    "SELECT 'smallest', smallest, 0 FROM firn_range",
    "SELECT 'largest', largest, 0 FROM firn_range",
    "SELECT 'low', CAST(low AS VARCHAR), 0 FROM firn_range",
    "SELECT 'high', CAST(high AS VARCHAR), 0 FROM firn_range",
    "SELECT 'width', CAST(width AS VARCHAR), 0 FROM firn_scale",
    "SELECT 'bar', CAST(bar AS VARCHAR), amount FROM firn_bars",
    "SELECT 'groups', NULL, max(groups) FROM firn_frequent",
    "SELECT 'value', label, amount FROM firn_frequent",
)
"""The rows of the answer that do not depend on the column."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Rows of a range. Ends of whole numbers and days belong to it; else the upper end belongs to the next bar."""

    lower: str
    upper: str
    rows: int


@dataclass(frozen=True, slots=True)
class FrequentValue:
    """A value, its text cut if it is long, and its rows."""

    value: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How the values of a column are distributed. All counts of rows are exact."""

    column: str
    type: str
    kind: DistributionKind
    rows: int
    nulls: int
    nans: int
    infinite: int
    different: int
    different_is_exact: bool
    """False if the number of different values is an estimate: there are too many to count."""
    smallest: str | None
    largest: str | None
    """Of the values that are numbers on an axis: NaN and infinity are counted apart."""
    bars: tuple[Bar, ...] = ()
    values: tuple[FrequentValue, ...] = ()
    other_rows: int = 0
    """Rows with a value that is not among `values`; 0 for bars."""


def find_scale(schema: Json, column: str) -> tuple[str, ColumnScale]:
    """The type and the scale of a column. Invalid with the reason for columns that have no distribution."""
    fields = {item["name"]: item for item in schema.get("fields", ())}
    kind = fields[column]["type"] if column in fields else None
    if kind is None:
        outer = next((name for name in fields if column.startswith(f"{name}.")), None)
        if outer is not None and isinstance(fields[outer]["type"], dict):
            raise Invalid(
                f"{column} is a part of column {outer}; only whole columns have distributions",
                hint="Count it by SQL: SELECT … GROUP BY …",
            )
        raise Invalid(f"the table has no column {column[:LONGEST_LABEL]!r}", hint="`firn table columns` lists them.")
    if isinstance(kind, dict):
        raise Invalid(f"column {column} is a {kind.get('type')}; its values have no order", hint="Count it by SQL.")
    scale = _SCALES.get(_DIALECT_TYPES.sub(r"\1", str(kind)))
    if scale is None:
        raise Invalid(f"values of the type {kind} have no distribution that people could read")
    return str(kind), scale


def write_statement(catalog: CatalogName, table: TableName, column: str, kind: str, scale: ColumnScale) -> str:
    """The SELECT in the SQL of DuckDB that counts a column: rows of a part's name, a text and a number."""
    source = ".".join(_quote(part) for part in (str(catalog), *table.namespace, table.name))
    is_text, is_real = scale is ColumnScale.TEXT, scale is ColumnScale.REAL
    value = f"CAST({_quote(column)} AS VARCHAR)" if is_text else _quote(column)
    on_axis = "isfinite(n)" if is_real else "n IS NOT NULL"
    kept = "TRUE" if is_text else on_axis
    bar = _write_real_bar() if is_real else "(n - low) // width"
    most = MOST_TEXTS if is_text else MOST_NUMBERS
    parts = [
        f"SELECT 'column' AS part, {_text(column)} AS label, CAST(0 AS BIGINT) AS amount",
        f"SELECT 'type', {_text(kind)}, 0",
        f"SELECT 'scale', {_text(scale)}, 0",
        *_COUNTED_PARTS,
    ]
    # Not materialized: the engine then reads the column twice, and holds no copy of it.
    return f"""WITH firn_column AS NOT MATERIALIZED (SELECT {value} AS v FROM {source} AS firn_source),
firn_values AS NOT MATERIALIZED (SELECT v, {_PLACES[scale]} AS n FROM firn_column),
firn_range AS MATERIALIZED (
  SELECT count(*) AS all_rows, count(v) AS known, approx_count_distinct(v) AS different,
    count(*) FILTER (WHERE {"isnan(n)" if is_real else "FALSE"}) AS nans,
    count(*) FILTER (WHERE {"isinf(n)" if is_real else "FALSE"}) AS infinite,
    left(CAST(min(v) FILTER (WHERE {kept}) AS VARCHAR), {LONGEST_LABEL}) AS smallest,
    left(CAST(max(v) FILTER (WHERE {kept}) AS VARCHAR), {LONGEST_LABEL}) AS largest,
    min(n) FILTER (WHERE {on_axis}) AS low, max(n) FILTER (WHERE {on_axis}) AS high
  FROM firn_values),
firn_scale AS MATERIALIZED (SELECT low, high, different, {_write_width(scale)} AS width FROM firn_range),
firn_bars AS (
  SELECT bar, count(*) AS amount FROM (
    SELECT {bar} AS bar FROM firn_values CROSS JOIN firn_scale WHERE {on_axis}
  ) GROUP BY bar),
firn_frequent AS (
  SELECT left(CAST(v AS VARCHAR), {LONGEST_LABEL}) AS label, amount, groups FROM (
    SELECT v, count(*) AS amount, count(*) OVER () AS groups FROM firn_values CROSS JOIN firn_scale
    WHERE different <= {most} AND v IS NOT NULL GROUP BY v
  ) ORDER BY amount DESC, label LIMIT {MOST_VALUES})
{" UNION ALL ".join(parts)}"""  # noqa: S608 -- names and texts are quoted


def _write_width(scale: ColumnScale) -> str:
    """The width of a bar: for whole numbers so that at most `MOST_BARS` bars hold the range."""
    if scale is ColumnScale.REAL:
        return "high / 2 - low / 2"  # the half of the range: the whole one may be infinite
    width = f"(high - low + {MOST_BARS}) // {MOST_BARS}"
    if scale in (ColumnScale.MOMENT, ColumnScale.ZONED_MOMENT, ColumnScale.TIME):
        whole = f"(({width} + {_SECOND - 1}) // {_SECOND}) * {_SECOND}"
        return f"CASE WHEN {width} > {_SECOND} THEN {whole} ELSE {width} END"
    return width


def _write_real_bar() -> str:
    share = f"floor((n / 2 - low / 2) / width * {MOST_BARS})"
    return f"CASE WHEN width > 0 THEN least({MOST_BARS - 1}, CAST({share} AS HUGEINT)) ELSE 0 END"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# --- the answer ---


@dataclass
class _Parts:
    """The rows of a statement by their first value."""

    texts: dict[str, str | None] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)
    bars: dict[int, int] = field(default_factory=dict)
    values: list[FrequentValue] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Iterable[Sequence[str | None]]) -> _Parts:
        parts = cls()
        for part, label, amount in rows:
            if part == "bar":
                parts.bars[int(label or 0)] = int(amount or 0)
            elif part == "value":
                parts.values.append(FrequentValue(label or "", int(amount or 0)))
            else:
                parts.texts[str(part)] = label
                parts.amounts[str(part)] = int(amount or 0)
        return parts


def read_distribution(rows: Iterable[Sequence[str | None]]) -> Distribution:
    """The distribution that the rows of a statement say. Invalid for rows of another statement."""
    try:
        parts = _Parts.of(rows)
        return _build(parts, ColumnScale(parts.texts["scale"] or ""))
    except (KeyError, ValueError, ArithmeticError) as error:
        raise Invalid("the query is no distribution of a column") from error


def _build(parts: _Parts, scale: ColumnScale) -> Distribution:
    amounts, texts = parts.amounts, parts.texts
    groups = amounts["groups"]  # 0 if there are too many to count, or none
    is_counted = groups > 0 or amounts["known"] == 0
    has_bars = scale is not ColumnScale.TEXT and not (is_counted and groups <= MOST_VALUES)
    bars = tuple(_read_bars(parts, scale)) if has_bars and texts["low"] is not None else ()
    return Distribution(
        column=texts["column"] or "",
        type=texts["type"] or "",
        kind=DistributionKind.BARS if has_bars else DistributionKind.VALUES,
        rows=amounts["rows"],
        nulls=amounts["rows"] - amounts["known"],
        nans=amounts["nans"],
        infinite=amounts["infinite"],
        different=groups if is_counted else min(amounts["different"], amounts["known"]),
        different_is_exact=is_counted,
        smallest=texts["smallest"],
        largest=texts["largest"],
        bars=bars,
        values=() if has_bars else tuple(parts.values),
        other_rows=0 if has_bars else amounts["known"] - sum(value.rows for value in parts.values),
    )


def _read_bars(parts: _Parts, scale: ColumnScale) -> Iterator[Bar]:
    if scale is ColumnScale.REAL:
        yield from _read_real_bars(parts)
        return
    low, high, width = (int(parts.texts[name] or 0) for name in ("low", "high", "width"))
    count = (high - low) // width + 1
    if not 1 <= count <= MOST_BARS:
        raise ValueError(count)
    show = _SHOWN[scale]
    inclusive = 1 if scale in (ColumnScale.WHOLE, ColumnScale.DAY) else 0
    for number in range(count):
        first = low + number * width
        last = min(high, first + width - inclusive) if number == count - 1 else first + width - inclusive
        yield Bar(show(first), show(last), parts.bars.get(number, 0))


def _read_real_bars(parts: _Parts) -> Iterator[Bar]:
    low, high = (float(parts.texts[name] or 0) for name in ("low", "high"))
    if high / 2 - low / 2 <= 0:  # different decimals may be the same number here
        yield Bar(parts.texts["smallest"] or "", parts.texts["largest"] or "", parts.bars.get(0, 0))
        return
    count = MOST_BARS
    edges = _show_edges([low * (1 - number / count) + high * (number / count) for number in range(count + 1)])
    for number in range(count):
        yield Bar(edges[number], edges[number + 1], parts.bars.get(number, 0))


def _show_edges(edges: Sequence[float]) -> list[str]:
    """The edges with as many digits as they need to differ."""
    for digits in range(4, 18):
        shown = [f"{edge + 0.0:.{digits}g}" for edge in edges]
        if len(set(shown)) == len(edges):
            return shown
    return [repr(edge) for edge in edges]


def _show_day(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"day {days:,} after 1970-01-01"


def _show_moment(microseconds: int) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds // _SECOND:,} s after 1970-01-01"
    return moment.replace(tzinfo=None).isoformat(" ")


def _show_time(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).time().isoformat() if microseconds < _DAY else "24:00:00"


_DAY = 24 * 3600 * _SECOND
_SHOWN: Mapping[ColumnScale, Callable[[int], str]] = {
    ColumnScale.WHOLE: str,
    ColumnScale.DAY: _show_day,
    ColumnScale.MOMENT: _show_moment,
    ColumnScale.ZONED_MOMENT: lambda microseconds: f"{_show_moment(microseconds)}+00:00",
    ColumnScale.TIME: _show_time,
}
