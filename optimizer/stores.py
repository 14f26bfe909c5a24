"""The stores of a keyed table as PyIceberg reads them, for jobs that need no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.metadata import TableMetadataUtil

from firn.hdfs.registration import register_file_io
from optimizer.credentials import build_lease_headers, use_own_credentials
from optimizer.job_run import Attempt
from optimizer.renewing_file_io import open_files

register_file_io()
_SIGNED = ("s3.remote-signing-enabled", "s3.signer")


class NeedsSpark(Exception):
    """This job cannot be done without Spark; says why."""


def open_store(attempt: Attempt, parts: Sequence[str], *, own_credentials: bool = False) -> Table:
    """A store at its head, with the access that the catalog gives to its files.

    With `own_credentials` the optimizer opens files with its own. NeedsSpark where the server signs each request, which
    PyArrow cannot ask for.
    """
    lease = use_own_credentials(attempt.lease) if own_credentials else attempt.lease

    def load_config() -> tuple[dict[str, Any], dict[str, str]]:
        loaded = attempt.api.load_table(lease, parts, build_lease_headers(lease))
        return loaded, {name: str(value) for name, value in loaded.get("config", {}).items()}

    loaded, config = load_config()
    if any(config.get(name, "false") != "false" for name in _SIGNED):
        raise NeedsSpark("the server signs each request to the object store")
    metadata = TableMetadataUtil.parse_obj(loaded["metadata"])
    return StaticTable(
        identifier=tuple(parts),
        metadata=metadata,
        metadata_location=loaded.get("metadata-location") or "",
        io=open_files(config, metadata.location, lambda: load_config()[1]),
        catalog=NoopCatalog("job"),
    )
