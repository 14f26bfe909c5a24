"""Looks at topics before change data capture begins, and plans it, for the console (docs/cdc.md, decision 128)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from catalog.errors import Invalid, NotFound
from catalog.iceberg.reading import current_schema
from catalog.kafka.cdc_sample import LARGEST_BYTES, SampledRecord, describe_record, guess_format, measure
from catalog.kafka.cluster import KafkaRecord
from catalog.kafka.connection import Connection
from catalog.names import CatalogName, TableName
from firn.protocol.avro.wire_format import DEBEZIUM_AVRO, read_schema_id
from firn.protocol.cdc.debezium import Reader
from firn.protocol.cdc.observation import Observation
from firn.protocol.cdc.plan import TopicPlan, plan_topic, refuse_shared_tables
from firn.protocol.cdc.routing import CdcConfig
from firn.protocol.envelope_readers import CDC_FORMATS, build_reader, list_schema_ids
from firn.protocol.names import InvalidName
from server.service.streams.connections import Connections
from server.service.streams.log_schemas import LogSchemas
from server.service.tables.keyed_tables import KeyedTables

SHOWN, PLANNED = 20, 200
"""How many records of a topic a look shows, and how many a plan reads."""
MOST_BYTES = 4 * 1024 * 1024
"""The bytes that one look at a topic reads at most, beside its last record."""
MOST_TOPICS = 20
"""The number of topics in one plan. Each takes a second or more."""
MOST_SCHEMAS = 50
"""The number of Avro schemas that one look at a topic asks a registry for: bytes of a hostile topic name many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcSample:
    """Some records of a topic, read in a format; None if they fit none."""

    format: str | None
    records: Sequence[SampledRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcPlan:
    """The plans of the first topics; `more_topics` others match as well."""

    topics: Sequence[TopicPlan]
    more_topics: int


@dataclass(frozen=True, slots=True)
class _Column:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """See firn.protocol.cdc.plan.ExistingTable. A table without key has no properties here: it has no log."""

    properties: dict[str, str]
    primary_key: Sequence[str]
    columns: Sequence[_Column]


_WITHOUT_LOG = _Table(properties={}, primary_key=(), columns=())


@dataclass(frozen=True)
class CdcPlanning:
    """Reads samples of topics of connections. It changes nothing.

    All methods raise NotFound for a connection or a topic that does not exist, and Unavailable or Forbidden if Kafka
    or the schema registry does not answer or refuses the user.
    """

    connections: Connections
    keyed: KeyedTables
    schemas: LogSchemas

    def list_topics(self, name: str) -> Sequence[str]:
        """The topics of a connection by name."""
        connection = self.connections.get(name)
        return self.connections.clusters.list_topics(connection, self.connections.reveal_password(connection))

    def sample(self, name: str, topic: str, format: str | None) -> CdcSample:
        """Some records of a topic, read in a format, or in the one that fits best."""
        if format is not None and format not in CDC_FORMATS:
            raise Invalid(f"format is {format!r}, not one of {', '.join(CDC_FORMATS)}")
        connection = self.connections.get(name)
        records = self._read(connection, topic, SHOWN)
        formats = _list_candidates(connection, records) if format is None else [format]
        readers = {name: self._build_reader(name, connection, records) for name in formats}
        fitting = format or guess_format(records, readers)
        described = [
            SampledRecord(record=record) if fitting is None else describe_record(readers[fitting], record)
            for record in records
        ]
        return CdcSample(format=fitting, records=described)

    def plan(self, catalog: CatalogName, config: CdcConfig) -> CdcPlan:
        """The plan of `firn cdc plan`, by fewer records of fewer topics. A topic that cannot be read is an error."""
        connection = self.connections.get(config.connection or "")
        topics = [name for name in self.list_topics(connection.name) if config.takes_topic(name)]
        plans = []
        for topic in topics[:MOST_TOPICS]:
            records = self._read(connection, topic, PLANNED)
            observation = _observe(self._build_reader(config.format, connection, records), records)
            plans.append(plan_topic(config, topic, observation, partial(self._load, catalog)))
        return CdcPlan(topics=refuse_shared_tables(plans), more_topics=max(len(topics) - MOST_TOPICS, 0))

    def _read(self, connection: Connection, topic: str, most: int) -> Sequence[KafkaRecord]:
        password = self.connections.reveal_password(connection)
        clusters = self.connections.clusters
        described = clusters.describe(connection, password, topic)
        return clusters.read_ends(connection, password, described, most, MOST_BYTES)

    def _build_reader(self, format: str, connection: Connection, records: Sequence[KafkaRecord]) -> Reader:
        """The reader of a format. That of Avro has the schemas that the records name; Invalid without a registry."""
        if format != DEBEZIUM_AVRO:
            return build_reader(format)
        ids = list_schema_ids((record.key, record.value) for record in records if measure(record) <= LARGEST_BYTES)
        return build_reader(format, self.schemas.load_all(connection, ids[:MOST_SCHEMAS]))

    def _load(self, catalog: CatalogName, name: str) -> _Table | None:
        """A table of the catalog; None if there is none. InvalidName for a name that no table can have."""
        try:
            table = TableName.parse(name)
            with self.keyed.database.reading() as uow:
                if uow.relations.find(catalog, table) is None:
                    return None
            base = self.keyed.pin(catalog, table)
        except NotFound:
            return _WITHOUT_LOG
        except Invalid as error:
            raise InvalidName(error.message, hint=error.hint or "") from error
        columns = [_Column(field["name"]) for field in current_schema(base.base)["fields"]]
        properties = dict(base.base.get("properties", {}))
        return _Table(properties=properties, primary_key=base.keyed.spec.primary_key, columns=columns)


def _list_candidates(connection: Connection, records: Sequence[KafkaRecord]) -> list[str]:
    """The formats that records may have. Nobody asks a registry about values that begin with no id."""
    names_schemas = any(read_schema_id(record.value) is not None for record in records)
    is_avro = connection.registry is not None and names_schemas
    return [name for name in CDC_FORMATS if name != DEBEZIUM_AVRO or is_avro]


def _observe(read: Reader, records: Sequence[KafkaRecord]) -> Observation:
    """What the records show. Those that are too large for a look, or name too long a table, are bad records of it."""
    observation = Observation()
    for record in records:
        described = describe_record(read, record) if measure(record) else None
        if described is not None and described.problem is not None:
            observation.records += 1
            observation.bad[described.problem] += 1
        else:
            observation.add(read, record.key, record.value)
    return observation
