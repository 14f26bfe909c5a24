"""What of that which differs from what Hive lists can be published now, and why the rest waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from catalog.datafile import FileFormat
from catalog.hive.avro import not_held
from catalog.hive.model import HiveTable
from catalog.hive.names import can_name, name_of
from catalog.hive.publishing import Comparison
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from server.service.hive.books import Linked
from server.service.hive.state import HiveState


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


def no_avro(metadata: Json) -> str | None:
    """The column for which Avro has no form as Hive writes it, in words; None when all can be published in it."""
    specs = (spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    elsewhere = {part["source-id"] for spec in specs for part in spec["fields"]}
    return not_held([one for one in current_schema(metadata)["fields"] if one["id"] not in elsewhere])


def writable(found: Comparison, state: HiveState, strange: str | None) -> tuple[Comparison, Mapping[str, FileFormat]]:
    """Those whose format can hold the table's columns, and the formats; `strange` is what Avro cannot hold.

    Whoever reads a partition goes by the descriptor that it has, so a publish changes none (decision 40): a partition
    keeps its own format, and a new one has the table's.
    """
    columns = state.table.partition_columns
    formats = {unit.name: unit.format for unit in state.units}
    new = state.table.file_format or FileFormat.PARQUET
    formats |= {name_of(columns, one): new for one in found.unknown} if columns else {}
    formats |= {name: new for name in found.differing if name not in formats}  # dropped since it was last looked at
    if strange is None:
        return found, formats
    left = Comparison(
        same=found.same,
        differing={name: one for name, one in found.differing.items() if formats[name] is not FileFormat.AVRO},
        unknown=tuple(one for one in found.unknown if formats[name_of(columns, one)] is not FileFormat.AVRO),
    )
    return left, formats


def why_never(found: Comparison, state: HiveState, strange: str | None) -> str | None:
    """Why Hive cannot be given some of what differs, and what to do; None when it can be given all."""
    named, columns = named_in_hive(found, state.table), state.table.partition_columns
    if nameless := found.count - named.count:
        return (
            f"{nameless} partitions have values that Hive cannot have (an empty text, a number beyond its type). Write "
            "their rows to other partitions, or delete them"
        )
    left, _ = writable(named, state, strange)
    names = [*found.differing, *(name_of(columns, one) for one in found.unknown)]
    ready = {*left.differing, *(name_of(columns, one) for one in left.unknown)}
    waiting = [name for name in names if name not in ready]
    if not waiting:
        return None
    one = f"partition {waiting[0]}" if waiting[0] else "the table"
    others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return (
        f"{one}{others} was changed here and is stored as Avro, which cannot hold {strange}. Drop that column, or have "
        "Hive write it in Parquet or ORC: ALTER TABLE … PARTITION … SET FILEFORMAT, then INSERT OVERWRITE"
    )


def why_waiting(counts: Sequence[int], strange: str | None) -> Iterator[str]:
    """What is not published now, and why: by how many are left after each thing that was looked at."""
    found, named, free, settled, taken, ready = counts
    if nameless := found - named:
        yield f"{_wait(nameless)}, because Hive can have none of the values"
    if held := named - free:
        yield f"{_wait(held)}, because what Hive has there is not taken over"
    if written := free - settled:
        yield f"{_wait(written)}, because Hive has written there a moment ago"
    if changed := settled - taken:
        yield f"{_wait(changed)}, because of changes of Hive's that no sync has taken over"
    if in_avro := taken - ready:
        yield f"{_wait(in_avro)}, because Hive has Avro there, which cannot hold {strange}"


def _wait(number: int) -> str:
    return "1 partition waits" if number == 1 else f"{number:,} partitions wait"
