"""Rows compared, and described in few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.integration.keyed.model import Row


def describe_changes(changes: Iterable[tuple[int, Row | None]]) -> str:
    return ", ".join(f"{key}={row['v']} in {row.get('p')}" if row else f"{key} deleted" for key, row in changes)


def same(actual: Mapping[Any, Any], expected: Mapping[Any, Any], subject: str) -> None:
    """Fails with what differs, and with nothing else."""
    differing = [key for key in {*actual, *expected} if actual.get(key) != expected.get(key)]
    words = [f"{key} is {actual.get(key)} instead of {expected.get(key)}" for key in sorted(differing, key=str)]
    assert not words, f"{subject}: {'; '.join(words)}"


def by_key(rows: Iterable[Row]) -> dict[int, Row]:
    """Rows that were read; fails when a key is there twice."""
    by_id: dict[int, Row] = {}
    for row in rows:
        assert row["id"] not in by_id, f"two rows of key {row['id']}: {by_id[row['id']]} and {row}"
        by_id[row["id"]] = row
    return by_id


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items(), key=repr)))
