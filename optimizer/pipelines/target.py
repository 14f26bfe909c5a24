"""The table that a run writes: created once, compared with the computed rows, and changed by one commit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructField, StructType

from firn.errors import NotFound
from firn.protocol.answers.tables import TableOut
from firn.protocol.names import format_sql_name, join_name, quote_name
from firn.protocol.pipelines import TableDefinition
from firn.spark.changes import Feed, plan_feed
from firn.spark.target import Target, load_target
from optimizer.errors import Refused
from optimizer.pipelines.inputs import BASE, CHANGE, StateRead
from optimizer.pipelines.lake import Lake

_TRANSFORM = re.compile(r"(years?|months?|days?|hours?|bucket|truncate)\((?:(\d+),)?([^,()]+)(?:,(\d+))?\)")
_UNWRITABLE = {
    "firn.partial": "takes changes of some columns, so others may write it",
    "firn.insert-only": "is insert-only",
}


@dataclass(frozen=True)
class PipelineTarget:
    """The target, and what the server says of it.

    `fills` are the columns that the pipeline fills of a table that others write; empty for a table of its own. With
    them, fields, columns and rows are those of the key and of these columns.
    """

    lake: Lake
    table: str
    shown: TableOut
    fills: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the name in the session."""
        return self.lake.parts(self.table)

    @property
    def path(self) -> str:
        """The name at the server."""
        return self.lake.path(self.table)

    @property
    def name(self) -> str:
        """The name as SQL reads it."""
        return format_sql_name(self.parts)

    @property
    def is_keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.shown.primary_key)

    @property
    def is_empty(self) -> bool:
        """Whether no store has a snapshot."""
        return all(store.snapshot_id is None for store in self.shown.stores.values())

    @property
    def total_bytes(self) -> int:
        """The bytes of its files, pending ones included."""
        return self.shown.bytes + self.shown.pending_bytes

    @property
    def columns(self) -> list[str]:
        """The columns, in order."""
        names = [column.name for column in self.shown.columns]
        return self._choose(names) if self.fills else names

    def _choose(self, names: Sequence[str]) -> list[str]:
        """The key columns and those that the pipeline fills, whatever their case."""
        lowered = {name.lower(): name for name in names}
        if missing := [name for name in self.fills if name.lower() not in lowered]:
            remedy = "; ".join(f"ALTER TABLE {self.path} ADD COLUMN {name} …" for name in missing)
            raise Refused(f"{self.path} has no column {', '.join(missing)} that the pipeline could fill: {remedy}")
        wanted = {name.lower() for name in (*self.fills, *self.shown.primary_key)}
        return [name for name in names if name.lower() in wanted]

    def list_states(self) -> list[StateRead]:
        """What a run reads of it: its head, or the heads of both stores of a keyed table."""
        if self.is_keyed:
            return [StateRead((*self.parts[1:], store), None) for store in (BASE, CHANGE)]
        return [] if self.is_empty else [StateRead(self.parts[1:], None)]

    def load_keyed(self) -> Target:
        """The facts for writes to the change store. Raises Refused for tables that do not take any row."""
        return self._keyed

    @cached_property
    def _keyed(self) -> Target:
        target = load_target(self.lake.spark, join_name(self.parts))
        if target.sequence_field is not None:
            raise Refused(
                f"{self.path} has the sequence field {target.sequence_field}: a computed row that is older than the "
                "table's would be left out. Let the pipeline create its table"
            )
        is_others = target.has_partial_columns and not self.fills
        for is_set, key in ((is_others, "firn.partial"), (target.is_insert_only, "firn.insert-only")):
            if is_set:
                raise Refused(f"{self.path} {_UNWRITABLE[key]} ({key}): let the pipeline create its table")
        return self._narrow(target) if self.fills else target

    def _narrow(self, target: Target) -> Target:
        """The table as if it had no other columns than the key and those that the pipeline fills."""
        if not target.has_partial_columns:
            raise Refused(
                f"{self.path}: its changes set all columns. Let them set some: "
                f"ALTER TABLE … SET TBLPROPERTIES ('firn.partial' = 'true'), while nothing is pending"
            )
        names = set(self._choose(target.columns))
        return replace(target, fields=tuple(field for field in target.fields if field.name in names))

    def read_fields(self, keyed: Target | None = None) -> Mapping[str, StructField]:
        """The columns with their types, by name. `keyed` has the facts of a keyed table, if they are loaded."""
        if not self.is_keyed:
            return {field.name: field for field in self.lake.spark.table(self.name).schema.fields}
        return {field.name: field for field in (keyed or self.load_keyed()).fields}

    def at_version(self, version: int) -> PipelineTarget:
        """The target with the rows of a version."""
        return replace(self, shown=self.shown.model_copy(update={"version": version}))

    def read_rows(self) -> DataFrame:
        """The rows of a keyed table, merged, as the server has shown it."""
        version = int(self.shown.version or 0)
        plan = plan_feed(self.lake.client, self.path, join_name(self.parts), version, version)
        rows = Feed(self.lake.spark, self.parts, plan).read_all(plan.until)
        return rows.select(*map(quote_name, self.columns)) if self.fills else rows


def find_target(lake: Lake, table: str, fills: Sequence[str] = ()) -> PipelineTarget | None:
    """The target, if it exists."""
    try:
        return PipelineTarget(lake, table, lake.table(table).show(), tuple(fills))
    except NotFound:
        return None


def create_target(lake: Lake, table: str, definition: TableDefinition, schema: StructType) -> None:
    """Create the target with the columns of the query, unless another run has just created it."""
    key = [_match(name, schema, "key column") for name in definition.key]
    columns = ", ".join(_define(field, is_required=field.name in key) for field in schema.fields)
    by = ", ".join(_partition(text, schema) for text in definition.partitioned_by)
    properties = f" TBLPROPERTIES ('firn.primary-key' = '{_quote_text(','.join(key))}')" if key else ""
    lake.spark.sql(
        f"CREATE TABLE IF NOT EXISTS {format_sql_name(lake.parts(table))} ({columns}) USING iceberg"
        f"{f' PARTITIONED BY ({by})' if by else ''}{properties}"
    )


def add_columns(target: PipelineTarget, schema: StructType) -> list[str]:
    """Add the columns that only the query has to the target; returns their names."""
    known = {name.lower() for name in target.columns}
    new = [field for field in schema.fields if field.name.lower() not in known]
    if new:
        columns = ", ".join(_define(field, is_required=False) for field in new)
        target.lake.spark.sql(f"ALTER TABLE {target.name} ADD COLUMNS ({columns})")
    return [field.name for field in new]


def _define(field: StructField, *, is_required: bool) -> str:
    return f"{quote_name(field.name)} {field.dataType.simpleString()}{' NOT NULL' if is_required else ''}"


def _quote_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _match(name: str, schema: StructType, role: str) -> str:
    """The column of the query of this name, whatever its case."""
    for column in schema.names:
        if column.lower() == name.lower():
            return column
    raise Refused(f"the {role} {name} is not among the columns of the query: {', '.join(schema.names)}")


def _partition(text: str, schema: StructType) -> str:
    """A column, or a transform of one, such as `days(at)` or `bucket(16, id)`, with quoted names."""
    match = _TRANSFORM.fullmatch(re.sub(r"\s+", "", text).replace("`", "").lower())
    if match is None:
        return quote_name(_match(text.strip().strip("`"), schema, "partition column"))
    transform, first, name, last = match.groups()
    column = quote_name(_match(name, schema, "partition column"))
    number = first or last
    return f"{transform}({number}, {column})" if number else f"{transform}({column})"


def fit_columns(rows: DataFrame, target: PipelineTarget, fields: Mapping[str, StructField]) -> DataFrame:
    """The rows with the target's columns, in its order and of its types. Raises Refused if names differ."""
    names = {name.lower(): name for name in rows.columns}
    missing = [name for name in target.columns if name.lower() not in names]
    unknown = [name for name in rows.columns if name.lower() not in {column.lower() for column in target.columns}]
    if missing or unknown:
        if target.fills:
            raise Refused(
                f"{target.path}: the query gives {', '.join(rows.columns)}, and has to give the key and the columns "
                f"that the pipeline fills: {', '.join(target.columns)}"
            )
        remedies = [f"ALTER TABLE … ADD COLUMN {name}" for name in unknown]
        remedies += [f"ALTER TABLE … DROP COLUMN {name}" for name in missing]
        raise Refused(
            f"{target.path} has the columns {', '.join(target.columns)}, and the query gives "
            f"{', '.join(rows.columns)}: {'; '.join(remedies)}; or drop the table. Then run again"
        )
    return rows.select(*(_fit(rows, names[name.lower()], fields[name], target) for name in target.columns))


def _fit(rows: DataFrame, name: str, field: StructField, target: PipelineTarget) -> Column:
    kinds = rows.schema[name].dataType.simpleString(), field.dataType.simpleString()
    column = F.col(quote_name(name))
    if kinds[0] == "string" != kinds[1]:
        raise Refused(f"{target.path}: column {field.name} is {kinds[1]}, and the query gives text: cast it there")
    return (column if kinds[0] == kinds[1] else column.cast(field.dataType)).alias(field.name)
