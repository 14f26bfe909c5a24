"""Conversion: a Hive table that cannot be upgraded is read by Spark, and its rows are written into a new table.

It is a rewrite: every byte is read and written anew. The new table is an ordinary one, linked to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catalog.hive.model import HiveColumn, HivePartition, HiveStorage, HiveTable, to_wall_clock_columns
from catalog.hive.partition_names import format_partition_name
from catalog.hive.readers import CSV, choose_reader, find_unknown_settings
from catalog.hive.upgrade_check import UpgradeBlocker, UpgradeBlockerCode, find_blockers
from firn.protocol.tasks.convert import Reader

HEADER, FOOTER = "skip.header.line.count", "skip.footer.line.count"
_REGARDLESS = frozenset({UpgradeBlockerCode.FORMAT, UpgradeBlockerCode.BUCKETED})
"""Blockers of an upgrade that do not prevent reading the rows."""
_IN_HIVE = "Write the rows into another table with Hive itself (CREATE TABLE … STORED AS PARQUET AS SELECT …)."


def find_conversion_blockers(table: HiveTable, partitions: Sequence[HivePartition]) -> list[UpgradeBlocker]:
    """Find all blockers of a conversion that the metastore's facts show.

    Tables in a format of Iceberg's are upgraded, unless Hive has bucketed them. Spark's own bucketed tables are left to
    Spark: their descriptor in the metastore names other classes than their files have.
    """
    upgrade_blockers = find_blockers(table, partitions)
    is_bucketed = any(blocker.code is UpgradeBlockerCode.BUCKETED for blocker in upgrade_blockers)
    if table.file_format is not None and not table.is_view and (table.provider or not is_bucketed):
        message = f"{table.full_name} is stored as {table.storage.format.upper()}, whose files need no rewrite"
        check = f"`firn hive check {table.full_name}` shows what blocks its upgrade."
        advice = check if upgrade_blockers else f"Run `firn hive upgrade {table.full_name}`."
        return [UpgradeBlocker(UpgradeBlockerCode.FORMAT, message, advice)]
    blockers = [blocker for blocker in upgrade_blockers if blocker.code not in _REGARDLESS]
    return blockers if table.is_view or table.provider else [*blockers, *_unreadable(table, partitions)]


def count_header_lines(table: HiveTable) -> int:
    """Count the lines at the beginning of each file that are not rows."""
    return max(_number(table.parameters.get(HEADER)) or 0, 0)


def convert_columns(table: HiveTable) -> tuple[HiveColumn, ...]:
    """The columns in the files, with the types that their rows have.

    A timestamp in text or ORC has no time zone; in Parquet it is an instant, as after an upgrade.

    Whatever types a CSV table is declared with, Hive's own serializer reads all of them as strings.
    """
    columns = table.storage.columns
    if table.storage.serde == CSV:
        return tuple(replace(column, type="string") for column in columns)
    return columns if choose_reader(table.storage) is Reader.PARQUET else to_wall_clock_columns(columns)


def replace_columns(table: HiveTable) -> HiveTable:
    """The table with the columns of `convert_columns`."""
    return replace(table, storage=replace(table.storage, columns=convert_columns(table)))


def _unreadable(table: HiveTable, partitions: Sequence[HivePartition]) -> Iterator[UpgradeBlocker]:
    for storage, name in _storages(table, partitions):
        if choose_reader(storage) is None:
            message = f"{name} is read by {storage.serde or 'nobody'} over {storage.input_format or 'nothing'}"
            yield UpgradeBlocker(UpgradeBlockerCode.FORMAT, f"{message}, which Spark does not have", _IN_HIVE)
            return
        if settings := find_unknown_settings(storage):
            message = f"the JSON serializer of {name} has settings of its own ({', '.join(settings)})"
            yield UpgradeBlocker(UpgradeBlockerCode.FORMAT, message, _IN_HIVE)
            return
        if choose_reader(storage) is Reader.PARQUET and (other := _find_other_column(table, storage)):
            message = f"{name} has a column {other!r} in its place; Spark reads Parquet by name, Hive by place"
            yield UpgradeBlocker(UpgradeBlockerCode.FORMAT, message, _IN_HIVE)
            return
    if _number(table.parameters.get(HEADER, "0")) is None or _number(table.parameters.get(FOOTER, "0")) != 0:
        message = f"{table.full_name} leaves out lines at the end of its files, or a number of lines that is none"
        yield UpgradeBlocker(UpgradeBlockerCode.FORMAT, message, _IN_HIVE)
    reads_json = any(choose_reader(storage) is Reader.JSON for storage, _ in _storages(table, partitions))
    binary = [column.name for column in table.storage.columns if "binary" in column.type.lower()]
    if reads_json and binary:
        message = f"column {binary[0]!r} of {table.full_name} is binary, which JSON serializers spell differently"
        yield UpgradeBlocker(UpgradeBlockerCode.COLUMN_TYPE, message, _IN_HIVE)


def _find_other_column(table: HiveTable, storage: HiveStorage) -> str | None:
    """The first column of a partition that the table has under another name. Hive pairs the two by place."""
    pairs = zip(storage.columns, table.storage.columns, strict=False)
    return next((column.name for column, named in pairs if column.name.lower() != named.name.lower()), None)


def _storages(table: HiveTable, partitions: Sequence[HivePartition]) -> Iterator[tuple[HiveStorage, str]]:
    yield table.storage, table.full_name
    for partition in partitions:
        name = format_partition_name(table.partition_columns, partition.values)
        yield partition.storage, f"partition {name} of {table.full_name}"


def _number(text: str | None) -> int | None:
    try:
        return int(text or "0")
    except ValueError:
        return None
