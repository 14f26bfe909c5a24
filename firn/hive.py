"""Tables of a catalog's metastore: `client.hive`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from firn.transport import Json
from firn.wire import Operation

if TYPE_CHECKING:
    from firn.client import Client


@dataclass(frozen=True, slots=True)
class Hive:
    """Tables of a catalog's metastore, named `database.table` or `catalog.database.table`."""

    client: Client

    def list(self, catalog: str | None = None, *, database: str | None = None) -> Iterator[Json]:
        """What Firn knows of the metastore's tables, page by page."""
        return self.client.transport.items(self._root(catalog), {"database": database})

    def refresh(self, catalog: str | None = None) -> Json:
        """List the metastore now, without waiting for its turn."""
        return self.client.transport.change("POST", f"{self._root(catalog)}/refresh")

    def show(self, table: str) -> Json:
        """Where one table stands."""
        return self.client.transport.get(self._path(table))

    def check(self, table: str, *, primary_key: Sequence[str] = ()) -> Json:
        """Whether the table can be upgraded: columns, counts, and every blocker by name.  Changes nothing."""
        return self.client.transport.change("POST", self._path(table, "/check"), {"primary_key": [*primary_key]})

    def upgrade(
        self,
        table: str,
        *,
        primary_key: Sequence[str] = (),
        sequence_field: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Operation:
        """Make it a Firn table in place; returns at once, the operation tells how far it is."""
        body = {
            "primary_key": [*primary_key],
            "sequence_field": sequence_field,
            "properties": dict(properties or {}),
        }
        return Operation.model_validate(self.client.transport.change("POST", self._path(table, "/upgrade"), body))

    def sync(self, table: str, *, everything: bool = False) -> Json:
        """Take over what Hive-side writers did; `everything` lists every directory whatever the metastore says."""
        return self.client.transport.change("POST", self._path(table, "/sync"), params={"everything": everything})

    def publish(self, table: str, *, merge: bool = True) -> Json:
        """Give Hive what has changed; with `merge`, the answer may be a merge that has to come first."""
        return self.client.transport.change("POST", self._path(table, "/publish"), params={"merge": merge})

    def _path(self, table: str, verb: str = "") -> str:
        name = self.client.name(table)
        return f"{self._root(name.catalog)}/{_quoted(name.table)}{verb}"

    def _root(self, catalog: str | None) -> str:
        return f"/catalogs/{_quoted(catalog or self.client.catalog)}/hive"


def _quoted(part: str) -> str:
    return quote(part, safe="")
