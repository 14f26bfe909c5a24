"""The services of connections, logs and streams, as the routes see them."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.ports.column_statistics import ColumnStatisticsReading
from server.service.jobs.leases import LeaseTimes
from server.service.streams.changelog_checks import ChangelogChecks
from server.service.streams.connections import Connections
from server.service.streams.log_schemas import LogSchemas
from server.service.streams.log_stores import LogStores
from server.service.streams.quarantines import Quarantines
from server.service.streams.stream_leases import StreamLeases
from server.service.streams.streams import Streams
from server.service.tables.keyed_tables import KeyedTables


@dataclass(frozen=True, kw_only=True)
class StreamServices:
    """Connections to Kafka, the logs of tables, and the streams that drain them."""

    connections: Connections
    log_stores: LogStores
    log_schemas: LogSchemas
    quarantines: Quarantines
    streams: Streams
    stream_leases: StreamLeases


def build_stream_services(
    keyed: KeyedTables, connections: Connections, times: LeaseTimes, manifests: ColumnStatisticsReading
) -> StreamServices:
    """Build the services over one database."""
    log_schemas = LogSchemas(keyed, connections)
    log_stores = LogStores(keyed.database, keyed, connections, log_schemas, ChangelogChecks(keyed, manifests))
    return StreamServices(
        connections=connections,
        log_stores=log_stores,
        log_schemas=log_schemas,
        quarantines=Quarantines(keyed.database, keyed.metadata),
        streams=Streams(keyed.database, log_stores),
        stream_leases=StreamLeases(keyed.database, connections, times),
    )
