"""Envelopes as rows of one keyed table: columns by name, values of the columns' types."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firn.protocol.cdc.envelope import NOT_GIVEN, BadRecord, Envelope, Kind, RowChange
from firn.protocol.cdc.sources import matches_source
from firn.protocol.cdc.values import Unfit, fit_value

STOP, IGNORE, EMPTY = "stop", "ignore", "empty"
ADD = "add"
"""What a column means that a record has and the table lacks: a drain adds it before it brings the record."""
LACKS_COLUMN = "the table lacks the column"
"""The reason of a record with a value that the table has no column for."""
TRUNCATE = "T"
"""The operation of a row that stands for a truncate. It is for the plan of a drain, and never written to a table."""
_NOT_SENT = "the source has not sent the value: the table needs firn.partial, or the source whole rows"
_NO_COLUMN = "the update does not have the column: the table needs firn.partial, or the source whole rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """The columns that rows are made for. `types` are Iceberg's, such as `decimal(9,2)`, by column."""

    types: Mapping[str, str]
    keys: Sequence[str]
    needed_by_deletes: Sequence[str]
    """The columns that a delete sets: the key, the sequence field, and partition columns that belong to the key."""
    is_partial: bool = False
    """Whether a change may leave columns out."""
    is_insert_only: bool = False
    """Whether the table takes inserts only."""
    sources: Sequence[str] = ()
    """Patterns for the source's tables, see `sources.py`; none for all records."""
    source_column: str | None = None
    """The column that takes the name of the source's table, if there is one."""
    schema_changes: str = IGNORE
    """`stop` and `add` take a record for bad if it has a column that the table lacks, `ignore` leaves the column out.

    With `add`, a drain adds the column, and then decodes the record again.
    """
    truncates: str = STOP
    """`stop` takes a truncate for a bad record, `ignore` leaves it out, `empty` makes it a row with TRUNCATE."""


@dataclass(frozen=True, slots=True)
class Row:
    """One change of the table. `set_columns` names the columns that it sets; None means all of them."""

    op: str
    values: Mapping[str, Any]
    set_columns: tuple[str, ...] | None = None


def build_rows(envelope: Envelope, columns: RowColumns) -> list[Row]:
    """The newest row of each key that an envelope changes; BadRecord names reason and column.

    One record may change a key twice, such as two rows that swap their keys. Nothing orders the rows of a record in
    the table, so there is one for each key.
    """
    if envelope.source is None or not matches_source(envelope.source.name, columns.sources):
        return []
    if envelope.kind is Kind.TRUNCATE and columns.truncates == STOP:
        raise BadRecord("the record empties the table at its source")
    if envelope.kind is Kind.TRUNCATE and columns.truncates == EMPTY:
        name = columns.source_column
        return [Row(TRUNCATE, {} if name is None else {name: envelope.source.name})]
    newest: dict[tuple[Any, ...], Row] = {}
    for change in itertools.chain.from_iterable(_split_move(change, columns) for change in envelope.changes):
        row = _build_row(change, envelope, columns)
        key = tuple(row.values.get(name) for name in columns.keys)
        newest[key] = _combine(newest.get(key), row)
    return list(newest.values())


def _split_move(change: RowChange, columns: RowColumns) -> tuple[RowChange, ...]:
    """An update that changes the key as a delete of the old row and an upsert of the new one."""
    if not change.before:
        return (change,)
    old, new = _match_names(change.before, columns), _match_names(change.values, columns)
    if not any(name in old and old[name] != new.get(name) for name in columns.keys):
        return (change,)
    return RowChange("D", {**new, **old}), replace(change, has_new_key=True, before={})


def _combine(older: Row | None, row: Row) -> Row:
    """Both changes of a key as one."""
    if older is None or row.op == "D" or row.set_columns is None:
        return row
    if older.op == "D":
        raise BadRecord("the record sets some columns of a row that it deletes")
    set_columns = None if older.set_columns is None else tuple(dict.fromkeys((*older.set_columns, *row.set_columns)))
    return Row("U", {**older.values, **row.values}, set_columns)


def _build_row(change: RowChange, envelope: Envelope, columns: RowColumns) -> Row:
    values = dict(_match_names(change.values, columns))
    if columns.source_column is not None and envelope.source is not None:
        values[columns.source_column] = envelope.source.name
    if change.op == "D":
        return Row("D", {name: _fit(values.get(name), name, envelope, columns) for name in columns.needed_by_deletes})
    _check_unknown(change.values, envelope, columns)
    columns_set = [name for name in columns.types if _is_given(name, values)]
    if len(columns_set) < len(columns.types) and (not columns.is_partial or change.has_new_key):
        _check_missing(values, envelope, columns)
    row = {name: _fit(values[name], name, envelope, columns) for name in columns_set}
    has_all = len(columns_set) == len(columns.types) or not columns.is_partial
    op = "I" if columns.is_insert_only and change.is_insert else "U"
    return Row(op, row, None if has_all else tuple(columns_set))


def _check_unknown(values: Mapping[str, Any], envelope: Envelope, columns: RowColumns) -> None:
    """Raise BadRecord for a column that the table lacks, if the table wants to know. A null is no loss."""
    if columns.schema_changes == IGNORE:
        return
    for name in list_unknown(values, envelope, columns):
        raise BadRecord(LACKS_COLUMN, name)


def list_unknown(values: Mapping[str, Any], envelope: Envelope, columns: RowColumns) -> list[str]:
    """The names in a row that have a value and no column. A null is no loss."""
    if values.keys() <= columns.types.keys():
        return []
    known = {name.casefold() for name in columns.types}
    names = [name for name in values if name.casefold() not in known]
    if envelope.is_document:
        names = [name for name in names if name in envelope.types]
    # The source leaves out values that it did not change. A table that gets the column now never had them.
    lossless = (None, NOT_GIVEN) if columns.schema_changes == ADD else (None,)
    return [name for name in names if not any(values[name] is value for value in lossless)]


def _match_names(values: Mapping[str, Any], columns: RowColumns) -> Mapping[str, Any]:
    """The values by the names of the table's columns, which may differ in case."""
    folded: dict[str, list[str]] = {}
    for name in values:
        folded.setdefault(name.casefold(), []).append(name)
    matched = dict(values)
    for name in columns.types.keys() - values.keys():
        same = folded.get(name.casefold(), [])
        if len(same) > 1:
            raise BadRecord("names of the source differ in case only", name)
        if same:
            matched[name] = values[same[0]]
    return matched


def _is_given(name: str, values: Mapping[str, Any]) -> bool:
    return name in values and values[name] is not NOT_GIVEN


def _check_missing(values: Mapping[str, Any], envelope: Envelope, columns: RowColumns) -> None:
    """Raise BadRecord if a column without a value has one at the source, or may have one: null would replace it."""
    for name in columns.types:
        if values.get(name) is NOT_GIVEN:
            raise BadRecord(_NOT_SENT, name)
        if name not in values and not envelope.has_all_columns:
            raise BadRecord(_NO_COLUMN, name)


def _fit(value: Any, name: str, envelope: Envelope, columns: RowColumns) -> Any:
    if value is NOT_GIVEN:
        raise BadRecord("the source has not sent the value", name)
    if value is None and name in columns.keys:
        raise BadRecord("the column must not be null", name)
    try:
        return fit_value(value, columns.types[name], envelope.encoding)
    except Unfit:
        raise BadRecord("the value does not fit the column", name) from None
