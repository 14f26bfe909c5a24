"""The logs of keyed tables: their position in a topic, and checks before the first record is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.commits.positions import NO_POSITION
from catalog.commits.writers import Writer
from catalog.errors import CatalogError, NotFound
from catalog.iceberg.reading import current_schema, current_snapshot
from catalog.kafka.cluster import KafkaRecord
from catalog.kafka.connection import Connection, parse_brokers
from catalog.kafka.decoded_record import DecodedRecord, TableColumns
from catalog.kafka.log_reset import TableOrder
from catalog.kafka.log_state import LogState, compare_log
from catalog.kafka.records import RecordDecoder
from catalog.keyed.column_rules import read_rules
from catalog.keyed.moving_keys import list_partition_fields, may_keys_move
from catalog.keyed.partial import is_partial
from catalog.keyed.spec import LOG_POSITION, LOG_TOPIC_ID, LOG_WRITER, KeyScope
from catalog.names import CatalogName, TableName
from catalog.policy.log_settings import LogSettings
from catalog.ports.hadoop import Severity
from catalog.ports.kafka import KafkaClusters
from catalog.ports.store import Database
from catalog.retention.ttl import Cutoff
from firn.protocol.avro.decoding import Schemas
from firn.protocol.avro.wire_format import AVRO_FORMATS, read_schema_id
from firn.protocol.cdc.rows import ADD, EMPTY, STOP
from firn.protocol.partial import ColumnRule
from server.service.streams.changelog_checks import ChangelogChecks, SuspectedChangelog
from server.service.streams.connections import Connections
from server.service.streams.log_schemas import LogSchemas
from server.service.tables.keyed_tables import KeyedTables, Pin, find_keyed
from server.service.tables.read_cutoffs import find_read_cutoff

SAMPLE = 10
"""How many of the newest records a check decodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """A table's log now."""

    settings: LogSettings
    connection: Connection
    state: LogState
    writer: Writer | None
    """The writer under whose name drains commit; None before the first one."""
    one_change_per_key: bool
    """Whether a drain keeps only the newest change of each key in a commit (docs/streams.md)."""
    order: TableOrder


@dataclass(frozen=True, slots=True)
class LogFinding:
    """The result of one check."""

    severity: Severity
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """All findings, and the newest records."""

    findings: Sequence[LogFinding]
    sample: Sequence[DecodedRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPin:
    """Both stores of a table at one moment, and the position of the log that the change store's head has."""

    pin: Pin
    position: str | None
    cutoff: Cutoff | None
    """The time before which rows are too old for reads; None if reads hide none."""


@dataclass(frozen=True)
class LogStores:
    """Asks Kafka about the topics of tables."""

    database: Database
    keyed: KeyedTables
    connections: Connections
    schemas: LogSchemas
    changelogs: ChangelogChecks

    @property
    def _clusters(self) -> KafkaClusters:
        return self.connections.clusters

    def show(self, catalog: CatalogName, table: TableName) -> LogStatus:
        """The log of a table; NotFound for a table without one, Unavailable or Forbidden if Kafka does not answer."""
        return self._load(self.keyed.pin(catalog, table))

    def find_offsets(self, log: LogStatus, at: datetime) -> Mapping[int, int]:
        """The offset of each partition's first committed record since a time; its end if there is none."""
        password = self.connections.reveal_password(log.connection)
        return self._clusters.find_offsets(log.connection, password, log.state.topic, at)

    def pin(self, catalog: CatalogName, table: TableName) -> LogPin:
        """Both stores at one moment, with the facts for a read of the table and its log; NotFound."""
        with self.database.reading() as uow:
            pin = self.keyed.pin_relation(uow, find_keyed(uow, catalog, table))
            cutoff = find_read_cutoff(uow, pin.relation, pin.base)
        _require_settings(pin)
        head = (current_snapshot(pin.change) or {}).get("summary") or {}
        return LogPin(pin=pin, position=head.get(LOG_POSITION), cutoff=cutoff)

    def find_suspected_changelogs(self, catalog: CatalogName, table: TableName) -> Sequence[SuspectedChangelog]:
        """Jobs of Flink that seem to insert a changelog into the change store; NotFound for a table without a log."""
        pin = self.keyed.pin(catalog, table)
        _require_settings(pin)
        return self.changelogs.find_pinned(pin)

    def check(self, catalog: CatalogName, table: TableName) -> LogCheck:
        """Look for problems of the topic and of its newest records. A failed check is a finding, not an error."""
        pin = self.keyed.pin(catalog, table)
        _require_settings(pin)
        suspected = [LogFinding(Severity.WARNING, changelog.message) for changelog in self.changelogs.find_pinned(pin)]
        try:
            log = self._load(pin)
            password = self.connections.reveal_password(log.connection)
            newest = self._clusters.read_newest(log.connection, password, log.state.topic, SAMPLE)
            schemas = self._load_schemas(log, newest)
        except CatalogError as error:
            return LogCheck(findings=[LogFinding(Severity.FAILED, error.message), *suspected], sample=())
        columns = _list_columns(pin)
        decoder = RecordDecoder(log.settings, columns, schemas)
        sample = [decoder.decode(record) for record in newest]
        return LogCheck(findings=[*_find(log), *_judge(sample, log.settings), *suspected], sample=sample)

    def _load(self, pin: Pin) -> LogStatus:
        settings = _require_settings(pin)
        connection = self._find_connection(settings)
        password = self.connections.reveal_password(connection)
        topic = self._clusters.describe(connection, password, settings.topic)
        with self.database.reading() as uow:
            writer = uow.writers.find(pin.keyed.change_id, LOG_WRITER)
        head = (current_snapshot(pin.change) or {}).get("summary") or {}
        position = NO_POSITION if writer is None else writer.position
        first_offsets = None
        if position == NO_POSITION and isinstance(settings.start, datetime):
            first_offsets = self._clusters.find_offsets(connection, password, topic, settings.start)
        state = compare_log(
            topic,
            position,
            topic_id=head.get(LOG_TOPIC_ID),
            starts_latest=settings.start == "latest",
            first_offsets=first_offsets,
            orders_by_field=pin.keyed.spec.sequence_field is not None,
        )
        # A column with a rule needs every change of its key (docs/protocols.md, rule 1.8).
        # So does a table whose changes may set some columns only (rule 1.7).
        spec, rules = pin.keyed.spec, read_rules(pin.base.get("properties") or {})
        needs_all = rules or is_partial(pin.change)
        keeps_newest = settings.every_change is False and not needs_all
        single = keeps_newest or may_keys_move(pin.base, spec)
        sums = [column for column, rule in rules.items() if rule is ColumnRule.SUM]
        return LogStatus(
            settings=settings,
            connection=connection,
            state=state,
            writer=writer,
            one_change_per_key=single,
            order=TableOrder(
                sequence_field=spec.sequence_field, summed_columns=sums, is_insert_only=spec.is_insert_only
            ),
        )

    def _load_schemas(self, log: LogStatus, records: Sequence[KafkaRecord]) -> Schemas:
        if log.settings.format not in AVRO_FORMATS:
            return {}
        ids = (read_schema_id(part) for record in records for part in (record.key, record.value))
        return self.schemas.load_all(log.connection, [number for number in ids if number is not None])

    def _find_connection(self, settings: LogSettings) -> Connection:
        if settings.connection is not None:
            return self.connections.get(settings.connection)
        return Connection(name="", brokers=parse_brokers(settings.brokers or ""))


def _require_settings(pin: Pin) -> LogSettings:
    settings = LogSettings.from_properties(pin.base.get("properties", {}))
    if settings is None:
        raise NotFound(
            f"{pin.relation.name} has no log", hint="a table gets its log when it is created: property firn.log.topic"
        )
    return settings


def _list_columns(pin: Pin) -> TableColumns:
    spec = pin.keyed.spec
    fields = current_schema(pin.base)["fields"]
    return TableColumns(
        fields=fields,
        primary_key=spec.primary_key,
        needed_by_deletes=list_delete_columns(pin),
        is_partial=is_partial(pin.change),
        is_insert_only=spec.is_insert_only,
    )


def list_delete_columns(pin: Pin) -> list[str]:
    """The columns that a delete must have: the key, and those without which it cannot be ordered or placed."""
    fields, spec = current_schema(pin.base)["fields"], pin.keyed.spec
    names = {field["id"]: field["name"] for field in fields}
    needed = [*spec.primary_key, *([spec.sequence_field] if spec.sequence_field else [])]
    if spec.scope is KeyScope.PARTITION:
        needed += [names[field["source-id"]] for field in list_partition_fields(pin.base)]
    return list(dict.fromkeys(needed))


def _find(log: LogStatus) -> Iterator[LogFinding]:
    state, topic = log.state, log.state.topic
    text = f"topic {topic.name} has {len(topic.partitions)} partitions and up to {state.lag:,} records for the table"
    yield LogFinding(Severity.OK, text)
    if state.problem is not None:
        yield LogFinding(
            Severity.FAILED, f"{state.problem.message}; `firn log skip` goes on, `firn log reset` sets another position"
        )
    if log.settings.truncates == EMPTY and len(topic.partitions) > 1:
        text = f"topic {topic.name} has several partitions, so firn.log.truncates=empty takes truncates for bad records"
        yield LogFinding(Severity.WARNING, text)
    if topic.is_compacted:
        text = f"topic {topic.name} is compacted: changes that newer ones replace may be gone before a drain reads them"
        yield LogFinding(Severity.WARNING, text)
    if topic.retention_ms is not None:
        yield _compare_retention(log, topic.retention_ms / 1000)


def _compare_retention(log: LogStatus, seconds: float) -> LogFinding:
    lag = log.settings.max_lag.total_seconds()
    text = f"topic {log.state.topic.name} keeps records for {seconds / 3600:,.1f} h; a drain aims at a lag of {lag:g} s"
    if seconds < 10 * lag:
        return LogFinding(Severity.WARNING, f"{text}: a drain that stops for a short time loses records")
    return LogFinding(Severity.OK, text)


def _judge(sample: Sequence[DecodedRecord], settings: LogSettings) -> Iterator[LogFinding]:
    if not sample:
        yield LogFinding(Severity.WARNING, "the topic has no records, so their format could not be checked")
        return
    bad = [decoded for decoded in sample if decoded.problem is not None]
    for decoded in bad[:1]:
        where = f"partition {decoded.record.partition}, offset {decoded.record.offset}"
        text = f"{len(bad)} of the {len(sample)} newest records are no changes of the table, such as {where}"
        yield LogFinding(Severity.FAILED, f"{text}: {decoded.problem}")
    if not bad:
        yield LogFinding(Severity.OK, f"the {len(sample)} newest records fit the table")
    unknown = sorted({name for decoded in sample for name in decoded.unknown})
    if unknown and settings.schema != STOP:
        effect = "a drain adds them" if settings.schema == ADD else "a drain ignores these fields"
        yield LogFinding(Severity.WARNING, f"the table has no columns {', '.join(unknown)}: {effect}")
