"""Upgrade check: the blockers of an upgrade of a Hive table in place, each with advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from catalog.errors import Invalid
from catalog.files.data_file import FileFormat
from catalog.hive.formats import HiveFormat
from catalog.hive.model import PROVIDER, HivePartition, HiveStorage, HiveTable
from catalog.hive.partition_names import PARTITION_TYPES, BadPartitionValue, format_partition_name, to_partition_record
from catalog.hive.path_prefix import group_nested
from catalog.hive.readers import choose_reader
from catalog.hive.types import Named, UnsupportedType, iceberg_type, parse_type

_REWRITE = "Write the rows into a Parquet table (CREATE TABLE … STORED AS PARQUET AS SELECT …) and upgrade that one."
_CONVERT = (
    "`firn hive convert {}` copies all rows into a new Iceberg table with Spark. The Hive table does not change, and "
    "its later changes do not reach the copy."
)
_ONLY = "only Parquet, ORC and Avro files can be registered"
_WITHOUT_SCHEMA = (
    "Give the table its columns in Hive itself, and take the schema's property away (UNSET TBLPROPERTIES)."
)
_BY_POSITION = ("parquet.column.index.access", "orc.force.positional.evolution")
_AVRO_SCHEMA = ("avro.schema.url", "avro.schema.literal")
_NAMED_AT_MOST = 3


class UpgradeBlockerCode(StrEnum):
    """Reasons why a table cannot be upgraded as it is."""

    VIEW = "view"
    ICEBERG = "iceberg"
    TRANSACTIONAL = "transactional"
    STORAGE_HANDLER = "storage_handler"
    FORMAT = "format"
    PARTITION_FORMAT = "partition_format"
    SPARK_FORMAT = "spark_format"
    SPARK_SCHEMA = "spark_schema"
    SPARK_PARTITIONS = "spark_partitions"
    BUCKETED = "bucketed"
    BY_POSITION = "by_position"
    AVRO_SCHEMA = "avro_schema"
    TIMESTAMP_FORMATS = "timestamp_formats"
    COLUMN_TYPE = "column_type"
    DUPLICATE_COLUMNS = "duplicate_columns"
    PARTITION_TYPE = "partition_type"
    PARTITION_VALUE = "partition_value"
    SAME_VALUES = "same_values"
    SHARED_LOCATION = "shared_location"
    KEY_UNKNOWN = "key_unknown"
    KEY_TYPE = "key_type"
    KEY_NULL = "key_null"


@dataclass(frozen=True, slots=True)
class UpgradeBlocker:
    """One reason, with a message and advice for the table's owner."""

    code: UpgradeBlockerCode
    message: str
    advice: str


def find_blockers(
    table: HiveTable, partitions: Sequence[HivePartition], *, reads_below: bool = False
) -> list[UpgradeBlocker]:
    """Find all blockers that the metastore's facts show.

    `reads_below` is whether files in sub-directories count. Only the upgrade itself finds problems in the files: their
    real columns, damaged footers, nulls in keys.
    """
    if table.is_view:
        message = f"{table.full_name} is a view and has no files of its own"
        return [UpgradeBlocker(UpgradeBlockerCode.VIEW, message, "Upgrade the tables that it reads.")]
    blockers = [blocker for rule in _TABLE_RULES if (blocker := rule(table))]
    of_partitions = (blocker for blocker, _ in _partition_rules(table, partitions, reads_below=reads_below))
    return [*blockers, *_columns(table), *of_partitions]


def find_blocked_partitions(
    table: HiveTable, partitions: Sequence[HivePartition], *, reads_below: bool = False
) -> dict[str, UpgradeBlocker]:
    """Find the partitions that cannot be taken over as they are, by name, each with its first blocker.

    If partitions conflict with each other, all of them are blocked: Firn cannot know to which one a file belongs.
    """
    blockers: dict[str, UpgradeBlocker] = {}
    for blocker, blocked in _partition_rules(table, partitions, reads_below=reads_below):
        for partition in blocked:
            blockers.setdefault(format_partition_name(table.partition_columns, partition.values), blocker)
    return blockers


def find_upgrade_notes(table: HiveTable) -> list[str]:
    """Find differences that users will see after the upgrade, but that do not block it."""
    padded = [column.name for column in table.columns if _is_padded(column.type)]
    if not padded:
        return []
    return [
        f"char columns ({', '.join(padded)}) show blanks as they are stored; through Hive, Spark adds missing blanks"
    ]


def find_key_blockers(
    table: HiveTable,
    partitions: Sequence[HivePartition],
    primary_key: Sequence[str],
    null_counts: Mapping[str, int] | None = None,
) -> list[UpgradeBlocker]:
    """Find the blockers of this primary key.

    `null_counts` has the nulls of each column from the files' footers, once the server has read them.
    """
    kinds = {column.name.lower(): column.type for column in (*table.columns, *table.partition_columns)}
    blockers = []
    for name in primary_key:
        kind = kinds.get(name.lower())
        if kind is None:
            message = f"primary key column {name!r} is not a column of {table.full_name}"
            blockers.append(UpgradeBlocker(UpgradeBlockerCode.KEY_UNKNOWN, message, f"Choose from {', '.join(kinds)}."))
        elif _is_padded(kind):
            message = f"primary key column {name!r} is a {kind}: some writers store its trailing blanks, others do not"
            advice = f"Make it a varchar, or choose other columns: ALTER TABLE … CHANGE {name} {name} var{kind}."
            blockers.append(UpgradeBlocker(UpgradeBlockerCode.KEY_TYPE, message, advice))
        elif not _can_be_key(kind):
            message = f"primary key column {name!r} is a {kind}, whose values cannot be compared exactly"
            blockers.append(
                UpgradeBlocker(UpgradeBlockerCode.KEY_TYPE, message, "Choose numbers, strings, dates or timestamps.")
            )
    nulls = dict(null_counts or {})
    for at, column in enumerate(table.partition_columns):
        nulls[column.name] = sum(
            to_partition_record([column], [p.values[at]]) == (None,) for p in _readable(table, partitions)
        )
    key_names = {name.lower() for name in primary_key}
    for name, count in nulls.items():
        if count and name.lower() in key_names:
            message = f"primary key column {name!r} holds nulls ({count} found)"
            blockers.append(
                UpgradeBlocker(UpgradeBlockerCode.KEY_NULL, message, "Choose other columns, or remove the rows first.")
            )
    return blockers


def _iceberg(table: HiveTable) -> UpgradeBlocker | None:
    if not table.is_iceberg and table.storage.format is not HiveFormat.ICEBERG:
        return None
    message = f"{table.full_name} is an Iceberg table already"
    return UpgradeBlocker(UpgradeBlockerCode.ICEBERG, message, "Register its metadata file in the catalog instead.")


def _transactional(table: HiveTable) -> UpgradeBlocker | None:
    if table.parameters.get("transactional", "").lower() != "true":
        return None
    message = f"{table.full_name} is transactional (ACID): which of its files count is known to Hive alone"
    return UpgradeBlocker(UpgradeBlockerCode.TRANSACTIONAL, message, _REWRITE)


def _handler(table: HiveTable) -> UpgradeBlocker | None:
    handler = table.parameters.get("storage_handler")
    if not handler or table.is_iceberg:
        return None
    message = f"the rows of {table.full_name} are kept by {handler}"
    return UpgradeBlocker(UpgradeBlockerCode.STORAGE_HANDLER, message, _REWRITE)


def _format(table: HiveTable) -> UpgradeBlocker | None:
    kind = table.storage.format
    if table.file_format is not None or (kind is HiveFormat.ICEBERG and not table.provider):
        return None
    if table.provider:
        message = f"{table.full_name} is a Spark table in format {table.provider!r}, {_ONLY}"
        return UpgradeBlocker(UpgradeBlockerCode.SPARK_FORMAT, message, _REWRITE)
    named = kind.upper() if kind is not HiveFormat.OTHER else f"{table.storage.serde} over {table.storage.input_format}"
    message = f"{table.full_name} is stored as {named}, {_ONLY}"
    advice = _REWRITE if choose_reader(table.storage) is None else _CONVERT.format(table.full_name)
    return UpgradeBlocker(UpgradeBlockerCode.FORMAT, message, advice)


def _spark_schema(table: HiveTable) -> UpgradeBlocker | None:
    is_placeholder = [(column.name, column.type) for column in table.columns] == [("col", "array<string>")]
    if PROVIDER not in table.parameters or not is_placeholder:
        return None
    message = f"the columns of {table.full_name} are of types that Hive does not have; the metastore does not know them"
    return UpgradeBlocker(UpgradeBlockerCode.SPARK_SCHEMA, message, _REWRITE)


def _spark_partitions(table: HiveTable) -> UpgradeBlocker | None:
    numbers = table.parameters.get("spark.sql.sources.schema.numPartCols", "0")
    if numbers == "0" or table.partition_columns:
        return None
    message = f"Spark keeps the partitions of {table.full_name} out of the metastore"
    return UpgradeBlocker(
        UpgradeBlockerCode.SPARK_PARTITIONS, message, f"Run MSCK REPAIR TABLE {table.full_name} in Spark."
    )


def _bucketed(table: HiveTable) -> UpgradeBlocker | None:
    is_hive = table.storage.buckets > 0 and table.storage.bucket_columns
    if not is_hive and "spark.sql.sources.schema.numBuckets" not in table.parameters:
        return None
    columns = f" by {', '.join(table.storage.bucket_columns)}" if table.storage.bucket_columns else ""
    message = f"{table.full_name} is bucketed{columns}; Hive would misread it once somebody else writes to it"
    is_readable = is_hive and not table.provider and choose_reader(table.storage) is not None
    advice = _CONVERT.format(table.full_name) if is_readable else _REWRITE
    return UpgradeBlocker(UpgradeBlockerCode.BUCKETED, message, advice)


def _by_position(table: HiveTable) -> UpgradeBlocker | None:
    settings = {**table.parameters, **table.storage.serde_parameters}
    name = next((name for name in _BY_POSITION if settings.get(name, "").lower() == "true"), None)
    if name is None:
        return None
    message = f"{table.full_name} finds columns in files by position ({name}=true), Iceberg finds them by name"
    return UpgradeBlocker(UpgradeBlockerCode.BY_POSITION, message, _REWRITE)


def _avro_schema(table: HiveTable) -> UpgradeBlocker | None:
    """An Avro schema of the table's own may rename columns, and has defaults for columns that files lack."""
    name = _own_schema(table, table.storage)
    if table.file_format is not FileFormat.AVRO or name is None:
        return None
    message = (
        f"{table.full_name} is read through a schema of its own ({name}), whose defaults and aliases are Hive's alone"
    )
    return UpgradeBlocker(UpgradeBlockerCode.AVRO_SCHEMA, message, _WITHOUT_SCHEMA)


def _own_schema(table: HiveTable, storage: HiveStorage) -> str | None:
    settings = {**table.parameters, **storage.serde_parameters}
    return next((name for name in _AVRO_SCHEMA if settings.get(name)), None)


_TABLE_RULES: Sequence[Callable[[HiveTable], UpgradeBlocker | None]] = (
    _iceberg,
    _transactional,
    _handler,
    _format,
    _spark_schema,
    _spark_partitions,
    _bucketed,
    _by_position,
    _avro_schema,
)


def _columns(table: HiveTable) -> Iterator[UpgradeBlocker]:
    for column in table.columns:
        try:
            iceberg_type(parse_type(column.type), lambda: 0)
        except UnsupportedType as error:
            message = f"column {column.name!r} of {table.full_name}: {error.message}"
            yield UpgradeBlocker(
                UpgradeBlockerCode.COLUMN_TYPE, message, "Change the column's type, or drop the column."
            )
    for column in table.partition_columns:
        kind = _try_parse(column.type)
        if not isinstance(kind, Named) or kind.name not in PARTITION_TYPES:
            message = f"partition column {column.name!r} is a {column.type}: what its values mean depends on the reader"
            yield UpgradeBlocker(UpgradeBlockerCode.PARTITION_TYPE, message, _REWRITE)
    names = Counter(column.name.lower() for column in (*table.columns, *table.partition_columns))
    if twice := sorted(name for name, count in names.items() if count > 1):
        message = f"{table.full_name} has more than one column named {', '.join(twice)}"
        yield UpgradeBlocker(UpgradeBlockerCode.DUPLICATE_COLUMNS, message, "Rename all but one of them.")


def _partition_rules(
    table: HiveTable, partitions: Sequence[HivePartition], *, reads_below: bool
) -> Iterator[tuple[UpgradeBlocker, Sequence[HivePartition]]]:
    """Find blockers of partitions, each with the partitions that it blocks."""

    def name(partition: HivePartition) -> str:
        return format_partition_name(table.partition_columns, partition.values)

    yield from _formats(table, partitions, name)
    records = [_record(table, partition) for partition in partitions]
    bad = [partition for partition, record in zip(partitions, records, strict=True) if record is _BAD]
    if bad:
        have = "1 partition has" if len(bad) == 1 else f"{len(bad)} partitions have"
        message = f"{have} values that do not fit the column: {_list_names(map(name, bad))}"
        yield UpgradeBlocker(UpgradeBlockerCode.PARTITION_VALUE, message, "Rename or drop these partitions."), bad
    for same in _groups(partitions, records):
        message = f"partitions {_list_names(map(name, same))} have the same values spelled differently"
        advice = "Move their files into one of them and drop the others."
        yield UpgradeBlocker(UpgradeBlockerCode.SAME_VALUES, message, advice), same
    for same in _groups(partitions, [partition.storage.location.rstrip("/") for partition in partitions]):
        message = f"partitions {_list_names(map(name, same))} share the directory {same[0].storage.location}"
        yield (
            UpgradeBlocker(UpgradeBlockerCode.SHARED_LOCATION, message, "Give each partition a directory of its own."),
            same,
        )
    for group in group_nested([partition.storage.location for partition in partitions]) if reads_below else ():
        nested = [partitions[at] for at in group]
        message = f"partitions {_list_names(map(name, nested))} have nested directories: their files count twice"
        advice = "Give each a directory that lies in no other's, or let sub-directories be ignored."
        yield UpgradeBlocker(UpgradeBlockerCode.SHARED_LOCATION, message, advice), nested


def _formats(
    table: HiveTable, partitions: Sequence[HivePartition], name: Callable[[HivePartition], str]
) -> Iterator[tuple[UpgradeBlocker, Sequence[HivePartition]]]:
    """Find partitions in formats that the table cannot have. Mostly, each partition has its table's format."""
    if table.file_format is None:
        return  # a blocker of the table names the format
    by_format: dict[FileFormat | None, list[HivePartition]] = {}
    for partition in partitions:
        by_format.setdefault(table.format_of(partition.storage), []).append(partition)
    if others := by_format.get(None):
        formats = ", ".join(sorted({p.storage.format for p in others}))
        are = "1 partition is" if len(others) == 1 else f"{len(others)} partitions are"
        message = f"{are} stored as {formats}: {_list_names(map(name, others))}"
        advice = "Write these partitions again as Parquet, ORC or Avro."
        yield UpgradeBlocker(UpgradeBlockerCode.PARTITION_FORMAT, message, advice), others
    is_orc = table.file_format is FileFormat.ORC
    clash = [p for kind, members in by_format.items() if kind and (kind is FileFormat.ORC) != is_orc for p in members]
    if clash and table.has_timestamps:
        differ = (
            "1 partition is in another format" if len(clash) == 1 else f"{len(clash)} partitions are in other formats"
        )
        message = (
            f"{differ} than the table: {_list_names(map(name, clash))}; "
            "timestamps are wall-clock times in ORC files and instants in others, and one column cannot be both"
        )
        advice = f"Write these partitions again as {table.file_format}."
        yield UpgradeBlocker(UpgradeBlockerCode.TIMESTAMP_FORMATS, message, advice), clash
    schemas = [p for p in by_format.get(FileFormat.AVRO, ()) if _own_schema(table, p.storage)]
    if schemas and table.file_format is not FileFormat.AVRO:
        message = f"{len(schemas)} Avro partitions have a schema of their own: {_list_names(map(name, schemas))}"
        yield UpgradeBlocker(UpgradeBlockerCode.AVRO_SCHEMA, message, _WITHOUT_SCHEMA), schemas


_BAD = ("no value of its type",)


def _record(table: HiveTable, partition: HivePartition) -> tuple[object, ...]:
    """The partition's Iceberg values; `_BAD` for a wrong value, and Hive's values for an unsupported column type."""
    try:
        return to_partition_record(table.partition_columns, partition.values)
    except BadPartitionValue:
        return _BAD
    except Invalid:
        return partition.values


def _readable(table: HiveTable, partitions: Sequence[HivePartition]) -> list[HivePartition]:
    return [partition for partition in partitions if _record(table, partition) is not _BAD]


def _groups(partitions: Sequence[HivePartition], by: Sequence[object]) -> Iterator[list[HivePartition]]:
    """Group partitions with equal values of `by`; a group has at least two."""
    groups: dict[object, list[HivePartition]] = {}
    for partition, value in zip(partitions, by, strict=True):
        if value is not _BAD:
            groups.setdefault(value, []).append(partition)
    return (same for same in groups.values() if len(same) > 1)


def _is_padded(text: str) -> bool:
    kind = _try_parse(text)
    return isinstance(kind, Named) and kind.name == "char"


def _can_be_key(text: str) -> bool:
    kind = _try_parse(text)
    return isinstance(kind, Named) and kind.name not in ("float", "double", "binary")


def _try_parse(text: str) -> object:
    try:
        return parse_type(text)
    except UnsupportedType:
        return None


def _list_names(names: Iterator[str]) -> str:
    """Format the first names, and the number of the others."""
    all_names = list(names)
    more = f" and {len(all_names) - _NAMED_AT_MOST} more" if len(all_names) > _NAMED_AT_MOST else ""
    return ", ".join(all_names[:_NAMED_AT_MOST]) + more
