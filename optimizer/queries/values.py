"""Values of results as people read them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def show_column(column: pa.Array) -> list[str | None]:
    """The values as text: bytes in hexadecimal, nested values as JSON, null as None."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind):
        return pc.cast(column, pa.string()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(kind):
        shown = pc.cast(column if kind.tz is None else column.cast(pa.timestamp(kind.unit)), pa.string())
        texts = [None if text is None else _trim(text) for text in shown.to_pylist()]
        return texts if kind.tz is None else [None if text is None else f"{text}+00:00" for text in texts]
    return [show_value(value) for value in column.to_pylist()]


def _trim(text: str) -> str:
    """A time without zeros at the end of its seconds."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def show_value(value: Any) -> str | None:
    """One value as text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        value = {show_value(key): item for key, item in value}  # a map
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=show_value)
    if isinstance(value, pa.MonthDayNano):
        return _show_interval(value)
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)


def _show_interval(value: Any) -> str:
    seconds = value.nanoseconds / 10**9
    parts = [(value.months, "months"), (value.days, "days"), (seconds, "s")]
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount) or "0 s"
