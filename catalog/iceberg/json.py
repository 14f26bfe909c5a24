"""Values out of JSON that a client sent: each reader returns the right type or raises Invalid naming the place."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten
from typing import Any, TypeGuard

from catalog.errors import Invalid

_KINDS = {int: "an integer of 64 bits", str: "a string", bool: "true or false", dict: "an object", list: "a list"}

Json = dict[str, Any]
"""One JSON object."""

HIGHEST_INT = 2**31 - 1
HIGHEST_LONG = 2**63 - 1
"""The largest integers that readers in other languages can hold: ids and widths, and everything else."""


_VERBATIM = frozenset({"summary", "properties", "initial-default", "write-default"})
"""Maps in which a null is an error, and values in which null has a meaning."""


def drop_nulls(value: Any) -> Any:
    """Remove the null entries of objects: clients write omitted fields so.

    A stored null would make the table unreadable for others: Java's readers accept it only in some places.
    """
    if isinstance(value, dict):
        named = ((key, entry) for key, entry in value.items() if entry is not None)
        return {key: entry if key in _VERBATIM else drop_nulls(entry) for key, entry in named}
    return [drop_nulls(entry) for entry in value] if isinstance(value, list) else value


def read_object(value: object, subject: str) -> Json:
    """The value itself when it is an object."""
    if not isinstance(value, dict):
        raise Invalid(f"invalid {subject}: it must be an object, not {shorten(repr(value), 80)}")
    return value


def _is_integer(value: object) -> TypeGuard[int]:
    """Whether other readers can hold it: they have 64 bits, and true is no number to them."""
    return isinstance(value, int) and not isinstance(value, bool) and -HIGHEST_LONG <= value <= HIGHEST_LONG


def integer(obj: Mapping[str, Any], key: str, where: str) -> int:
    """The integer at `key`; `where` says what `obj` is, for the message of the refusal."""
    value = obj.get(key)
    if not _is_integer(value):
        raise _wrong(obj, key, where, int)
    return value


def integer_or_none(obj: Mapping[str, Any], key: str, where: str) -> int | None:
    """The integer at `key`, or None where the key is missing or null."""
    return None if obj.get(key) is None else integer(obj, key, where)


def text(obj: Mapping[str, Any], key: str, where: str) -> str:
    """The string at `key`."""
    value = obj.get(key)
    if not isinstance(value, str):
        raise _wrong(obj, key, where, str)
    return value


def flag(obj: Mapping[str, Any], key: str, where: str) -> bool:
    """The boolean at `key`."""
    value = obj.get(key)
    if not isinstance(value, bool):
        raise _wrong(obj, key, where, bool)
    return value


def child(obj: Mapping[str, Any], key: str, where: str) -> Json:
    """The object at `key`."""
    value = obj.get(key)
    if not isinstance(value, dict):
        raise _wrong(obj, key, where, dict)
    return value


def children(obj: Mapping[str, Any], key: str, where: str) -> list[Json]:
    """The list of objects at `key`."""
    value = obj.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _wrong(obj, key, where, list, of="objects")
    return value


def integers(obj: Mapping[str, Any], key: str, where: str) -> list[int]:
    """The list of integers at `key`."""
    value = obj.get(key)
    if not isinstance(value, list) or not all(_is_integer(item) for item in value):
        raise _wrong(obj, key, where, list, of="integers")
    return value


def texts(obj: Mapping[str, Any], key: str, where: str) -> list[str]:
    """The list of strings at `key`."""
    value = obj.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(obj, key, where, list, of="strings")
    return value


def text_map(obj: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    """The object at `key` whose values are all strings, as properties and summaries are."""
    value = child(obj, key, where)
    for name, entry in value.items():
        if not isinstance(entry, str):
            raise _wrong(value, name, f"{key} of {where}", str)
    return value


def _wrong(obj: Mapping[str, Any], key: str, where: str, expected_type: type, *, of: str | None = None) -> Invalid:
    expected = _KINDS[expected_type] + (f" of {of}" if of else "")
    if key not in obj:
        return Invalid(f"invalid {where}: {key!r} is missing, it must be {expected}")
    return Invalid(f"invalid {where}: {key!r} must be {expected}, not {shorten(repr(obj[key]), 80)}")
