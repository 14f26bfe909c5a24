"""A server as the source of a scan: its Iceberg catalog serves the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from urllib.parse import quote

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from firn.errors import FirnError, NotFound, ServerFault
from firn.names import split_name
from firn.transport import Json, Transport, build_error, build_unreachable, repeat_while_unavailable


@dataclass(frozen=True, kw_only=True)
class Served:
    """One table of one server."""

    transport: Transport
    token: str | None
    catalog: str
    table: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of each request to the Iceberg catalog."""
    seconds: float | None = None
    """How long a request to it may take; PyIceberg waits for ever."""

    @property
    def is_keyed(self) -> bool:
        """Whether the server knows it as a keyed table."""
        try:
            path = f"/catalogs/{quote(self.catalog, safe='')}/tables/{quote(self.table, safe='')}"
            return bool(self.transport.get(path)["kind"] == "keyed")
        except NotFound:
            return False

    def load(self, store: str | None = None) -> Table:
        """Load the table, or one store of a keyed table.

        Raises NotFound without such a table, Unavailable when the server cannot merge a keyed table for its readers
        just now, and other FirnErrors as calls of the management API do.
        """
        name = (*split_name(self.table), *(() if store is None else (store,)))
        return repeat_while_unavailable(lambda: self._load(name))

    def _load(self, name: tuple[str, ...]) -> Table:
        with _translate_errors(self.transport.url):
            table: Table = self._catalog.load_table(name)
            return table

    @cached_property
    def _catalog(self) -> RestCatalog:
        token = {"token": self.token} if self.token else {}
        headers = {f"header.{name}": value for name, value in self.headers.items()}
        uri = f"{self.transport.url}/iceberg"
        catalog = RestCatalog(self.catalog, uri=uri, warehouse=self.catalog, **token, **headers)
        if self.seconds is not None:
            session = catalog._session  # noqa: SLF001 -- PyIceberg has no setting for it
            session.request = partial(session.request, timeout=self.seconds)  # type: ignore[method-assign]
        return catalog


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Raise errors of PyIceberg's catalog as those of Firn's client."""
    try:
        yield
    except NoSuchTableError as error:
        raise NotFound(f"the table cannot be read: {error}", hint="`firn table list` lists all tables") from error
    except RESTError as error:
        raise _translate(error) from error
    except (requests.ConnectionError, requests.Timeout) as error:
        raise build_unreachable(url, error) from error


def _translate(error: RESTError) -> FirnError:
    cause = error.__cause__
    if not isinstance(cause, requests.HTTPError) or cause.response is None:
        return ServerFault(str(error))
    try:
        message = cause.response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):  # a proxy's page
        message = str(error)
    return build_error(cause.response.status_code, {"message": message})


_CONTENT = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position deletes",
    DataFileContent.EQUALITY_DELETES: "equality deletes",
}


def list_live_files(source: Served) -> list[Json]:
    """List the files of a table's current snapshot, or of both stores; raise NotFound without such a table."""
    if not source.is_keyed:
        return _list_files("table", source.load())
    change = source.load("change")  # before base: a merge in between hides no change (docs/protocols.md, rule 1.3)
    return [*_list_files("base", source.load("base")), *_list_files("change", change)]


def _list_files(store: str, table: Table) -> list[Json]:
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    specs, schema = table.specs(), table.schema()
    rows = []
    for manifest in manifests:
        spec = specs[manifest.partition_spec_id]
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            partition = spec.partition_to_path(file.partition, schema) if spec.fields else ""
            row = {"store": store, "content": _CONTENT[file.content], "path": file.file_path, "partition": partition}
            rows.append({**row, "records": file.record_count, "bytes": file.file_size_in_bytes})
    return rows
