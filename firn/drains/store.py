"""The stores of a keyed table as the light engine loads them, anew for each commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg.table import Table

from firn.client import TableHandle
from firn.hdfs.registration import register_file_io
from firn.scan.served import Served

register_file_io()

ANSWER_SECONDS = 120.0
"""How long a load or a commit may take; then the drain asks for the position."""


@dataclass(frozen=True)
class StoreLoader:
    """Loads stores of one table. `headers` go with each request to the Iceberg catalog."""

    handle: TableHandle
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def load(self, store: str) -> Table:
        """The store as it is now, with fresh credentials for its files. Raises as `Served.load`."""
        return self._served.load(store)

    @cached_property
    def _served(self) -> Served:
        name = self.handle.name
        return Served(
            transport=self.handle.transport,
            token=self.handle.token,
            catalog=name.catalog,
            table=name.table,
            headers=self.headers,
            seconds=ANSWER_SECONDS,
        )
