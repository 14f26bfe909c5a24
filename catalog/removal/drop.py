"""Drops: how long a catalog keeps dropped tables, and which tables and namespaces are protected."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from catalog.errors import Invalid
from catalog.policy.policy import PROTECTED, RETENTION
from catalog.policy.units import parse_duration

DEFAULT_RETENTION = "7 d"


def read_drop_retention(properties: Mapping[str, str]) -> timedelta:
    """How long a catalog keeps dropped tables; Invalid if the property is no duration."""
    text = properties.get(RETENTION, DEFAULT_RETENTION).strip()
    return timedelta() if text == "0" else parse_duration(text)


def check_catalog_properties(properties: Mapping[str, str]) -> None:
    """Invalid if a catalog's retention property does not parse."""
    try:
        read_drop_retention(properties)
    except Invalid as error:
        raise Invalid(
            f"{RETENTION}: {error.message}", hint=error.hint or "write 0, or a duration such as 7 d"
        ) from error


def is_protected(properties: Mapping[str, str]) -> bool:
    """Whether these properties forbid a drop. A misspelt `true` counts as true."""
    return properties.get(PROTECTED, "false").strip().lower() not in {"false", ""}
