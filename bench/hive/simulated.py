"""What a server's memory grows to over an upgrade of very many files.

Everything is Firn's own, in a process of its own, but for the storage under it: it lists directories that are not
there, and every file in them ends as one real Parquet file does. Manifests and metadata are written to disk.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, timedelta
from multiprocessing import get_context
from os import getpid
from pathlib import Path
from typing import Any

from bench.hive.tables import columns_sql, generate
from bench.measure import peak_mib
from bench.report import Report
from catalog.hive.listing import ListedFile, Listing
from catalog.names import CatalogName
from catalog.ports.metastore import Metastore
from server.adapters import open_database
from server.container import build_services
from server.files.listing import Listings
from server.files.storage import Storage
from server.files.table_files import TableFiles
from server.service.hive.table_index import HiveIndex
from server.settings import Settings
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.server.metastore.fake import FakeMetastore

NAME = "simulated"
CATALOG = CatalogName("lake")
_DATABASE, _TABLE = "db", "orders"
_PLACE = "file:/made-up/orders"
_LONG_AGO_NS = 1_700_000_000 * 10**9


class MadeUpStorage(Storage):
    """Files that all end as this one does."""

    def __init__(self, like: Path) -> None:
        super().__init__()
        self._data = like.read_bytes()

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        if not location.startswith(_PLACE):
            return super().tail(location, length)
        return self._data[-length:], len(self._data)


class MadeUpListings(Listings):
    """Directories of so many files each."""

    def __init__(self, files: int, size: int) -> None:
        super().__init__()
        self._files = files
        self._size = size

    def list(self, location: str, *, recursive: bool = False) -> Listing:  # noqa: ARG002 -- as Listings has it
        day = location.rpartition("=")[2]
        files = tuple(
            ListedFile(f"part-{n:05d}-{day}-c000.zstd.parquet", self._size, _LONG_AGO_NS + n, str(10**8 + n))
            for n in range(self._files)
        )
        return Listing(location=location, files=files, began_ns=time.time_ns(), directory_mtime_ns=_LONG_AGO_NS)


@dataclass(frozen=True, slots=True)
class OneMetastore:
    """Every address leads to it."""

    metastore: Metastore

    def of(self, _uri: str) -> Metastore:
        """This one."""
        return self.metastore


def run(_ends: ExitStack, scratch: Path, options: argparse.Namespace) -> Report:
    """Upgrade, in a process that nothing else has made larger."""
    files, partitions = options.files or 1_000_000, options.partitions or 10_000
    report = Report("hive-simulated", files=files, partitions=partitions, columns=20)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        report.line("upgrade", **pool.submit(upgraded, scratch, files, partitions).result())
    return report


def upgraded(scratch: Path, files: int, partitions: int) -> dict[str, Any]:
    """How long it took and how large this process was before and has been since."""
    like = generate(scratch / "like", files=1, partitions=1).paths[0]
    settings = Settings(data_dir=scratch / "firn", database_url=f"sqlite:///{scratch / 'firn.db'}")
    database = open_database(settings)
    services = build_services(settings, database)
    services.namespaces.create_catalog(CATALOG, (scratch / "warehouse").as_uri(), "thrift://made.up:9083", {})
    files_of_partition = files // partitions
    made_up = TableFiles(
        MadeUpStorage(like),
        MadeUpListings(files_of_partition, like.stat().st_size),
        footer_threads=settings.hive.footer_threads,
    )
    index = HiveIndex(database, OneMetastore(_metastore(partitions)))
    checks = replace(services.hive.checks, index=index, files=made_up)
    operations = replace(services.hive.operations, checks=checks)
    upgrades = replace(services.hive.upgrades, index=index, checks=checks, files=made_up)
    before, began = peak_mib(getpid()), time.perf_counter()
    operation = operations.start(CATALOG, f"{_DATABASE}.{_TABLE}", None, {})
    upgrades.activate()
    took = time.perf_counter() - began
    with database.reading() as uow:
        ended = uow.operations.get(operation.id)
    if ended.result.get("files") != files_of_partition * partitions:
        raise AssertionError(f"the upgrade of {files_of_partition * partitions} files has ended as {ended}")
    per_file = round(took * 1000 / files, 3)
    return {"wall_s": round(took, 1), "ms_per_file": per_file, "mib": peak_mib(getpid()), "mib_before": before}


def _metastore(partitions: int) -> FakeMetastore:
    metastore = FakeMetastore()
    metastore.add_database(_DATABASE)
    table = a_storage(_PLACE, columns_sql("; ").lower())
    metastore.add_table(a_hive_table(_DATABASE, _TABLE, storage=table, partitioned_by="day string"))
    for number in range(partitions):
        day = str(date(2000, 1, 1) + timedelta(days=number))
        storage = a_storage(f"{_PLACE}/day={day}", columns_sql("; ").lower())
        metastore.add_partition(_DATABASE, _TABLE, a_hive_partition(day, storage=storage))
    return metastore
