"""Envelopes as rows of one keyed table: columns by name, values of the columns' types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.protocol.cdc.envelope import NOT_GIVEN, BadRecord, Envelope, Kind, RowChange
from firn.protocol.cdc.values import Unfit, fit_value

STOP, IGNORE = "stop", "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """The columns that rows are made for. `types` are Iceberg's, such as `decimal(9,2)`, by column."""

    types: Mapping[str, str]
    keys: Sequence[str]
    needed_by_deletes: Sequence[str]
    """The columns that a delete sets: the key, the sequence field, and partition columns that belong to the key."""
    is_partial: bool = False
    """Whether a change may leave columns out."""
    constants: Mapping[str, str] | None = None
    """Values of columns that the source does not have, such as the name of its shard."""
    truncates: str = STOP
    """`stop` takes a truncate for a bad record, `ignore` leaves it out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One change of the table. `given` names its columns; None means all of them."""

    op: str
    values: Mapping[str, Any]
    given: tuple[str, ...] | None = None


def build_rows(envelope: Envelope, columns: RowColumns) -> list[Row]:
    """The rows of an envelope, in the order in which they take effect; BadRecord names reason and column."""
    if envelope.kind is Kind.TRUNCATE and columns.truncates == STOP:
        raise BadRecord("the record empties the table at its source")
    return [_build_row(change, envelope, columns) for change in envelope.changes]


def _build_row(change: RowChange, envelope: Envelope, columns: RowColumns) -> Row:
    values = {**_match_names(change.values, columns), **(columns.constants or {})}
    if change.op == "D":
        return Row("D", {name: _fit(values.get(name), name, envelope, columns) for name in columns.needed_by_deletes})
    given = [name for name in columns.types if _is_given(name, values)]
    if len(given) < len(columns.types) and not columns.is_partial:
        _check_missing(values, envelope, columns)
    row = {name: _fit(values[name], name, envelope, columns) for name in given}
    has_all = len(given) == len(columns.types) or not columns.is_partial
    return Row("U", row, None if has_all else tuple(given))


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
    """Raise BadRecord if a column without a value may have one in the table: null would overwrite it."""
    for name in columns.types:
        if values.get(name) is NOT_GIVEN:
            raise BadRecord("the source has not sent the value: the table needs firn.partial", name)
        if name not in values and not envelope.has_all_columns:
            raise BadRecord("the update does not have the column: the table needs firn.partial", name)


def _fit(value: Any, name: str, envelope: Envelope, columns: RowColumns) -> Any:
    if value is NOT_GIVEN:
        raise BadRecord("the source has not sent the value", name)
    if value is None and name in columns.keys:
        raise BadRecord("the column must not be null", name)
    try:
        return fit_value(value, columns.types[name], envelope.encoding)
    except Unfit:
        raise BadRecord("the value does not fit the column", name) from None
