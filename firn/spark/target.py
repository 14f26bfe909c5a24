"""The facts that a writer needs about a keyed table. It reads them through the session's catalog, without a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from firn.errors import Invalid
from firn.names import split_name
from firn.protocol.names import format_sql_name
from firn.protocol.partial import read_groups
from firn.spark.errors import NotKeyed
from firn.spark.quiet_logs import silence_failure_logs

_OWN_COLUMNS = ("_op", "_source")
SET_COLUMN = "_set"


@dataclass(frozen=True)
class Target:
    """A keyed table as the target of a write. `change` is the name of its change store in SQL."""

    name: str
    change: str
    key: tuple[str, ...]
    sequence_field: str | None
    is_partition_scoped: bool
    has_partial_columns: bool
    fields: tuple[StructField, ...]
    partition_columns: tuple[str, ...]
    is_insert_only: bool = False
    """Whether the first row of a key wins."""
    partition_transforms: tuple[str, ...] = ()
    """The partition fields as DESCRIBE shows them, such as `days(at)`, or just a column's name."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The sequence field of each column in a sequence group."""
    ordered_groups: tuple[str, ...] = ()
    """The sequence fields of groups that must not be null in this write."""

    @property
    def default_op(self) -> str:
        """The operation of a row that names none."""
        return "I" if self.is_insert_only else "U"

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that the table takes."""
        return ("I",) if self.is_insert_only else ("I", "U", "D")

    @property
    def columns(self) -> list[str]:
        """The table's columns, in order."""
        return [field.name for field in self.fields]

    @property
    def can_keys_move(self) -> bool:
        """Whether a new row of a key may lie in another partition than the old one."""
        return not self.is_partition_scoped and not {*self.partition_columns} <= {*self.key}

    @property
    def delete_columns(self) -> list[str]:
        """The columns that a delete needs."""
        needed = {*self.key, self.sequence_field}
        if self.is_partition_scoped:
            needed |= {*self.partition_columns}
        return [column for column in self.columns if column in needed]


def load_target(spark: SparkSession, table: str) -> Target:
    """Load the keyed table `catalog.namespace.table`; raise NotKeyed if there is none.

    Only parts with a dot need backticks.
    """
    try:
        change = format_sql_name((*split_name(table), "change"))
        with silence_failure_logs(spark):
            properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {change}").collect()}
            schema = spark.table(change).schema
            described = spark.sql(f"DESCRIBE TABLE {change}").collect()
    except (AnalysisException, Invalid):
        raise NotKeyed(
            f"{table} is not a keyed table that this session can find. Name it with its catalog, as in lake.db.orders; "
            "a table without primary key is written with Spark's own writeTo"
        ) from None
    key = tuple(name.strip() for name in properties.get("firn.primary-key", "").split(",") if name.strip())
    if not key:
        raise NotKeyed(f"{table} has no primary key: write to it with Spark's own writeTo")
    is_partial = properties.get("firn.partial") == "true"
    own = (*_OWN_COLUMNS, *((SET_COLUMN,) if is_partial else ()))
    partitioning = [(row.col_name, row.data_type) for row in described]
    return Target(
        name=table,
        change=change,
        key=key,
        sequence_field=properties.get("firn.sequence-field"),
        is_partition_scoped=properties.get("firn.key.scope") == "partition",
        has_partial_columns=is_partial,
        is_insert_only=properties.get("firn.insert-only") == "true",
        fields=tuple(field for field in schema.fields if field.name not in own),
        partition_columns=_partition_columns(partitioning, schema.names),
        partition_transforms=_partition_transforms(partitioning, schema.names),
        groups=read_groups(properties),
    )


def read_field_ids(spark: SparkSession, target: Target) -> dict[str, int]:
    """The ids of the table's columns, by which changes name the columns that they set."""
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    schema = util.loadIcebergTable(spark._jsparkSession, target.change).schema()
    return {field.name(): field.fieldId() for field in schema.columns()}


def _partition_columns(described: list[tuple[str, str]], names: list[str]) -> tuple[str, ...]:
    """Find the partition columns in the output of DESCRIBE: by their names, or inside of transforms."""
    titles = [title for title, _ in described]
    if "# Partition Information" in titles:
        start = titles.index("# Partition Information") + 2
        return tuple(title for title in titles[start:] if title in names)
    if "# Partitioning" in titles:
        transforms = [text for _, text in described[titles.index("# Partitioning") + 1 :]]
        return tuple(name for name in names if any(_uses_column(text, name) for text in transforms))
    return ()


def _partition_transforms(described: list[tuple[str, str]], names: list[str]) -> tuple[str, ...]:
    """Find the partition fields in the output of DESCRIBE. A list of columns means their values."""
    titles = [title for title, _ in described]
    if "# Partition Information" in titles:
        return _partition_columns(described, names)
    if "# Partitioning" not in titles:
        return ()
    start = titles.index("# Partitioning") + 1
    return tuple(text.strip().strip("`") for title, text in described[start:] if title.startswith("Part "))


def _uses_column(transform: str, name: str) -> bool:
    arguments = transform[transform.find("(") + 1 :].rstrip(")") if "(" in transform else transform
    return any(argument.strip().strip("`") == name for argument in arguments.split(","))
