"""A job's effect on a table's size: files, bytes and delete files, which a full scan reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from catalog.planning.facts import TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """Live files, bytes and delete files of a table; of both stores for a keyed one."""

    files: int
    bytes: int
    deletes: int


class Effect(NamedTuple):
    """The size of the table after a job, and the bytes that the job reads."""

    after: TableSize
    work: int


Estimate = Callable[[TableFacts, TableSize, Mapping[str, Any]], Effect]
"""The effect of a job with these parameters on a table of this size, from stored statistics alone."""


def size_of(facts: TableFacts) -> TableSize:
    """The size of a table now."""
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    return TableSize(
        files=sum(stats.data_files for stats in stores),
        bytes=sum(stats.bytes for stats in stores),
        deletes=sum(stats.delete_files for stats in stores),
    )


def reads_metadata(_facts: TableFacts, before: TableSize, _params: Mapping[str, Any]) -> Effect:
    """The job reads only metadata and does not change the sizes."""
    return Effect(before, 0)


def reads_all_data(_facts: TableFacts, before: TableSize, _params: Mapping[str, Any]) -> Effect:
    """The job reads every data file and does not change the sizes."""
    return Effect(before, before.bytes)


def size_without_changes(facts: TableFacts, before: TableSize, *, left: int) -> TableSize:
    """The size of a keyed table whose change store keeps `left` rows. Kept and removed rows count as equally large."""
    change = facts.change
    if change is None or facts.keyed is None:
        return before
    share = min(left / change.records, 1.0) if change.records else 0.0
    return TableSize(
        files=facts.stats.data_files + ceil(change.data_files * share),
        bytes=facts.stats.bytes + ceil(change.bytes * share),
        deletes=facts.stats.delete_files + ceil(change.delete_files * share),
    )
