"""A server as the source of a scan: the pin from its management API, the tables from its Iceberg catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from firn.errors import NotFound
from firn.names import split_name
from firn.protocol.answers.pins import PinOut
from firn.scan.scan import Pin, Pinned
from firn.transport import Json, Transport


@dataclass(frozen=True, kw_only=True)
class Served:
    """One table of one server."""

    transport: Transport
    token: str | None
    catalog: str
    table: str

    def pin(self) -> Pin | None:
        """Pin both stores as they are now; None for a table that is not keyed or that the API does not know."""
        path = f"/catalogs/{quote(self.catalog, safe='')}/tables/{quote(self.table, safe='')}/pin"
        try:
            answer = PinOut.read(self.transport.get(path))
        except NotFound:
            return None
        return Pin(
            primary_key=tuple(answer.primary_key),
            sequence_field=answer.sequence_field,
            watermark=answer.watermark,
            pending=answer.pending,
            base=Pinned(table=tuple(answer.base.table)),
            change=Pinned(table=tuple(answer.change.table)),
        )

    def load(self, name: Sequence[str] | None = None) -> Table:
        """Load an Iceberg table of the catalog; raise NoSuchTableError without one."""
        table: Table = self._catalog.load_table(split_name(self.table) if name is None else tuple(name))
        return table

    @cached_property
    def _catalog(self) -> RestCatalog:
        token = {"token": self.token} if self.token else {}
        return RestCatalog(self.catalog, uri=f"{self.transport.url}/iceberg", warehouse=self.catalog, **token)


_CONTENT = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position deletes",
    DataFileContent.EQUALITY_DELETES: "equality deletes",
}


def list_live_files(source: Served) -> list[Json]:
    """List the files of a table's current snapshot, or of both stores; raise NotFound without such a table."""
    pin = source.pin()
    try:
        if pin is None:
            return _list_files("table", source.load())
        return [
            *_list_files("base", source.load(pin.base.table)),
            *_list_files("change", source.load(pin.change.table)),
        ]
    except NoSuchTableError as error:
        raise NotFound(
            f"{source.catalog}.{source.table}: {error}", hint="`firn table list` lists all tables"
        ) from error


def _list_files(store: str, table: Table) -> list[Json]:
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    specs, schema = table.specs(), table.schema()
    listed = []
    for manifest in manifests:
        spec = specs[manifest.partition_spec_id]
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            partition = spec.partition_to_path(file.partition, schema) if spec.fields else ""
            known = {"store": store, "content": _CONTENT[file.content], "path": file.file_path, "partition": partition}
            listed.append({**known, "records": file.record_count, "bytes": file.file_size_in_bytes})
    return listed
