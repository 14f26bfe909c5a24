"""Runs `firn cdc`: looks at topics, makes tables and columns, and drains the tables in this process (docs/cdc.md).

All new records of a topic are looked at before a table gets any of them. So the table has a column before the first
record that has a value for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from firn.cdc.cluster import Bounds, CdcCluster
from firn.cdc.schemas import CdcSchemas
from firn.client import Client, TableHandle
from firn.drains.drain import LOG_WRITER
from firn.errors import FirnError, NotFound, Refused
from firn.logs import PASSWORD_VARIABLE, LogBatch, PlainBrokers, build_kafka_options
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.tables import TableOut
from firn.protocol.cdc.observation import Observation
from firn.protocol.cdc.plan import Action, TablePlan, plan_topic
from firn.protocol.cdc.routing import CdcConfig
from firn.protocol.names import format_sql_name, quote_name
from firn.protocol.streams import StreamStatus
from firn.spark.cdc_observing import observe_range
from firn.spark.errors import reason
from firn.spark.log_drain import LogDrain
from firn.spark.target import load_target

if TYPE_CHECKING:
    from firn.protocol.avro.decoding import Schemas

MOST_OBSERVED = 2_000_000
"""Offsets of one look: a table can have its first rows before a long topic has been looked at to its end."""
_SQL_TYPES: Mapping[str, str] = {"long": "BIGINT", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The result of a round for one table. `problem` says why it got no rows, or not all."""

    table: str
    topic: str
    commits: int = 0
    most_records: int = 0
    position: str | None = None
    problem: str | None = None


@dataclass
class BoundedDrain(LogDrain):
    """A drain that goes no further than the records that have been looked at."""

    bounds: dict[int, int] = field(default_factory=dict)

    def look(self) -> LogOut:
        """The log, with an end that is known."""
        log = super().look()
        end = {number: max(min(at, self.bounds.get(number, 0)), log.start[number]) for number, at in log.end.items()}
        return log.model_copy(update={"end": end})


@dataclass
class CdcRun:
    """One process. `run_once` brings all tables up to now; its state is only a memory of what it has looked at."""

    config: CdcConfig
    client: Client
    cluster: CdcCluster
    spark: SparkSession
    say: Callable[[str], None]
    _seen: dict[str, dict[int, int]] = field(default_factory=dict)
    _observed: dict[str, Observation] = field(default_factory=dict)
    _drains: dict[str, BoundedDrain] = field(default_factory=dict)
    _paused: set[str] = field(default_factory=set)
    """The tables whose streams this process has seen paused."""
    _schemas: CdcSchemas = field(init=False)

    def __post_init__(self) -> None:
        self._schemas = CdcSchemas(self.config, self.client.connections)

    def run_once(self) -> list[TableProgress]:
        """Look at all topics, and drain their tables. A problem of one table or topic stops no other."""
        progress: list[TableProgress] = []
        try:
            topics = self.cluster.list_topics(self.config)
        except FirnError as error:
            return [TableProgress(table="", topic="", problem=error.message)]
        for topic in topics:
            try:
                progress += self._run_topic(topic)
            except FirnError as error:
                progress.append(TableProgress(table="", topic=topic, problem=error.message))
        return progress

    def _run_topic(self, topic: str) -> list[TableProgress]:
        goal = self.cluster.find_bounds(topic)
        while True:
            end = self._observe(topic, goal)
            progress = self._bring(topic, end)
            if all(end[number] >= stable for number, (_, stable) in goal.items()):
                return progress

    def _observe(self, topic: str, bounds: Bounds) -> dict[int, int]:
        """Look at the next records of a topic; the answer is up to where all have been looked at."""
        seen = self._seen.get(topic, {})
        if any(seen.get(number, 0) > stable for number, (_, stable) in bounds.items()):
            seen = {}  # the topic was created again
        start = {number: max(seen.get(number, 0), first) for number, (first, _) in bounds.items()}
        share = max(MOST_OBSERVED // max(len(bounds), 1), 1)
        end = {number: min(max(stable, start[number]), start[number] + share) for number, (_, stable) in bounds.items()}
        batch = LogBatch(topic=topic, start=start, end=end)
        if batch.most_records:
            self._observed.setdefault(topic, Observation()).merge(self._look(batch))
        self._seen[topic] = end
        return end

    def _look(self, batch: LogBatch) -> Observation:
        try:
            return observe_range(
                self.spark, batch, self._build_options(), self.config.format, partial(self._load_schemas, batch.topic)
            )
        except FirnError:
            raise
        except Exception as error:  # Java throws many types of errors
            raise FirnError(f"topic {batch.topic} could not be read: {reason(error)}") from error

    def _load_schemas(self, topic: str, ids: list[int]) -> Schemas:
        """The Avro schemas of a look. No record passes whose schema is unknown, unless the file says so."""
        return self._schemas.load(topic, ids, stops=self.config.unknown_schemas == "stop")

    def _build_options(self) -> dict[str, str]:
        name = self.config.connection
        cluster = PlainBrokers(self.config.brokers) if name is None else self.client.connections.get(name)
        return build_kafka_options(cluster, os.environ.get(PASSWORD_VARIABLE))

    def _bring(self, topic: str, end: dict[int, int]) -> list[TableProgress]:
        plan = plan_topic(self.config, topic, self._observed.get(topic, Observation()), self._load_table)
        return [self._bring_table(table, end) for table in plan.tables]

    def _bring_table(self, plan: TablePlan, end: dict[int, int]) -> TableProgress:
        try:
            if plan.problem is not None:
                raise Refused(plan.problem)
            self._apply(plan)
            drain = self._open_drain(plan.table)
            drain.bounds = end
            drained = drain.run()
        except FirnError as error:
            # Another copy may have registered since: the next round registers anew, or reports who drains.
            self._drains.pop(plan.table, None)
            return TableProgress(table=plan.table, topic=plan.topic, problem=error.message)
        return TableProgress(
            table=plan.table,
            topic=plan.topic,
            commits=drained.commits,
            most_records=drained.most_records,
            position=drained.position,
        )

    def _apply(self, plan: TablePlan) -> None:
        if plan.action is Action.CREATE:
            self._create(plan)
        elif plan.action is Action.CHANGE:
            self._change(plan)

    def _create(self, plan: TablePlan) -> None:
        namespace = format_sql_name([self.client.catalog, *self.client.name(plan.table).parts[:-1]])
        self._run_sql(plan.table, f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        self.client.tables.create(
            plan.table,
            [{"name": name, "type": type_} for name, type_ in plan.columns.items()],
            primary_key=plan.primary_key,
            sequence_field=plan.rule.sequence_field,
            partition_by=plan.rule.partition_by,
            properties={**plan.rule.properties, **build_properties(self.config, plan)},
        )
        self.say(f"created {plan.table} for {', '.join(plan.sources)}")
        self._pause_stream(plan.table)

    def _change(self, plan: TablePlan) -> None:
        """Add columns first: a table that takes a new source without them would stop."""
        if plan.columns:
            added = ", ".join(f"{quote_name(name)} {to_sql_type(type_)}" for name, type_ in plan.columns.items())
            self._run_sql(plan.table, f"ALTER TABLE {self._name_in_sql(plan.table)} ADD COLUMNS ({added})")
            self.say(f"added {', '.join(plan.columns)} to {plan.table}")
        if plan.new_sources:
            self.client.tables[plan.table].set_properties({"firn.log.source-tables": ", ".join(plan.sources)})
            self.say(f"{plan.table} takes {', '.join(plan.new_sources)}, too")
        self._drains.pop(plan.table, None)  # it knows the old columns

    def _open_drain(self, table: str) -> BoundedDrain:
        handle = self.client.tables[table]
        self._pause_stream(table)
        if table not in self._drains:
            writer = handle.writers.register(LOG_WRITER)  # before the position is read (docs/protocols.md, rule 6.2)
            target = load_target(self.spark, self._name_in_sql(table))
            secret = os.environ.get(PASSWORD_VARIABLE)
            self._drains[table] = BoundedDrain(self.spark, handle, target, writer, secret)
        return self._drains[table]

    def _pause_stream(self, table: str) -> None:
        """Keep optimizers from the table. Raises Refused if a user has handed it to them by resuming its stream."""
        name = self.client.name(table)
        stream = self.client.streams.find(name.catalog, name.table)
        if stream.status == StreamStatus.RUNNING:
            raise Refused(f"optimizer {stream.owner} drains {table}: `firn stream pause {table}` gives it back")
        if stream.status == StreamStatus.WAITING:
            if table in self._paused:
                raise Refused(f"{table} waits for an optimizer: `firn stream pause {table}` gives it back")
            self.client.streams.pause(stream.id)
        self._paused.add(table)

    def _load_table(self, table: str) -> TableOut | None:
        try:
            return TableHandle(self.client.transport, self.client.name(table), self.client.token).show()
        except NotFound:
            return None

    def _name_in_sql(self, table: str) -> str:
        name = self.client.name(table)
        return format_sql_name([name.catalog, *name.parts])

    def _run_sql(self, table: str, statement: str) -> None:
        try:
            self.spark.sql(statement)
        except Exception as error:  # Java throws many types of errors
            raise FirnError(
                f"{table}: {reason(error)}", hint="the account needs the privileges create and write there: docs/cdc.md"
            ) from error


def build_properties(config: CdcConfig, plan: TablePlan) -> dict[str, str]:
    """The properties of a new table."""
    cluster = (
        {"firn.log.brokers": ",".join(config.brokers)}
        if config.connection is None
        else {"firn.log.connection": config.connection}
    )
    source_column = {} if plan.rule.source_column is None else {"firn.log.source-column": plan.rule.source_column}
    return {
        "firn.log.topic": plan.topic,
        "firn.log.format": config.format,
        "firn.log.start": config.start,
        "firn.log.deletes": config.deletes,
        "firn.log.truncates": config.truncates,
        "firn.log.schema": "stop" if config.schema == "add" else "ignore",
        "firn.log.source-tables": ", ".join(plan.sources),
        **cluster,
        **source_column,
        **({"firn.partial": "true"} if plan.rule.is_partial else {}),
    }


def to_sql_type(type_: str) -> str:
    """Spark's name of an Iceberg type."""
    return _SQL_TYPES.get(type_, type_.upper())
