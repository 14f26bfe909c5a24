"""What of that which differs from what Hive lists can be published now, and why the rest waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from catalog.datafile import FileFormat
from catalog.hive.model import HiveTable
from catalog.hive.names import can_name, name_of
from catalog.hive.publishing import Comparison
from server.service.hive.books import Linked
from server.service.hive.state import HiveState

WRITTEN = (FileFormat.PARQUET, FileFormat.ORC)
"""Formats that are published."""


def named_in_hive(found: Comparison, table: HiveTable) -> Comparison:
    """Without partitions that only this side can have: Hive takes an empty text for null, and has small integers."""
    return replace(found, unknown=tuple(one for one in found.unknown if can_name(table.partition_columns, one)))


def fresh(linked: Linked, now_ns: int, watermark: int) -> set[str]:
    """Partitions that Hive has overwritten a moment ago, of which half may be missing.

    And those to which it has added rows that are not merged yet: its readers would not see these any more.
    """
    return {
        name
        for name, ground in linked.grounds.items()
        if ground.appended_through > watermark
        or (ground.lost_ns is not None and now_ns - ground.lost_ns < linked.when.overwrite_ns)
    }


def without(found: Comparison, names: Collection[str], table: HiveTable) -> Comparison:
    """What is compared but for partitions of these names."""
    columns, waiting = table.partition_columns, frozenset(names)
    return Comparison(
        same=found.same - waiting,
        differing={name: record for name, record in found.differing.items() if name not in waiting},
        unknown=tuple(one for one in found.unknown if not columns or name_of(columns, one) not in waiting),
    )


def taken_over(found: Comparison, changed: Collection[str]) -> Comparison:
    """Without partitions that Hive has changed since: published, they would be given up, and what it did a conflict."""
    return replace(found, differing={name: one for name, one in found.differing.items() if name not in changed})


def writable(found: Comparison, state: HiveState) -> tuple[Comparison, Mapping[str, FileFormat]]:
    """Those whose format an optimizer can write, and the formats: a partition keeps its own, a new one has the table's.

    Whoever reads a partition goes by the descriptor that it has, so a publish changes none (decision 40).
    """
    columns = state.table.partition_columns
    formats = {unit.name: unit.format for unit in state.units}
    new = state.table.file_format or FileFormat.PARQUET
    formats |= {name_of(columns, one): new for one in found.unknown} if columns else {}
    formats |= {name: new for name in found.differing if name not in formats}  # dropped since it was last looked at
    left = Comparison(
        same=found.same,
        differing={name: one for name, one in found.differing.items() if formats[name] in WRITTEN},
        unknown=tuple(one for one in found.unknown if formats[name_of(columns, one)] in WRITTEN),
    )
    return left, formats


def why_never(found: Comparison, state: HiveState) -> str | None:
    """Why Hive cannot be given some of what differs, and what to do; None when it can be given all."""
    named, columns = named_in_hive(found, state.table), state.table.partition_columns
    if nameless := found.count - named.count:
        return (
            f"{nameless} partitions have values that Hive cannot have (an empty text, a number beyond its type). Write "
            "their rows to other partitions, or delete them"
        )
    left, formats = writable(named, state)
    names = [*found.differing, *(name_of(columns, one) for one in found.unknown)]
    ready = {*left.differing, *(name_of(columns, one) for one in left.unknown)}
    strange = [name for name in names if name not in ready]
    if not strange:
        return None
    form, one = formats[strange[0]].capitalize(), f"partition {strange[0]}" if strange[0] else "the table"
    others = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
    return (
        f"{one}{others} was changed here and is stored as {form}, which is not published. Have Hive write it in "
        "Parquet or ORC: ALTER TABLE … PARTITION … SET FILEFORMAT, then INSERT OVERWRITE"
    )


def why_waiting(found: int, named: int, free: int, settled: int, taken: int, ready: int) -> Iterator[str]:
    """What is not published now, and why: by how many are left after each thing that was looked at."""
    if nameless := found - named:
        yield f"{nameless} partitions wait, because Hive can have none of their values"
    if held := named - free:
        yield f"{held} partitions wait, because what Hive has there is not taken over"
    if written := free - settled:
        yield f"{written} partitions wait, because Hive has written to them a moment ago"
    if changed := settled - taken:
        yield f"{changed} partitions wait, because Hive has changed them and no sync has taken that over"
    if strange := taken - ready:
        yield f"{strange} partitions wait, because they are stored as Avro, which is not written"
