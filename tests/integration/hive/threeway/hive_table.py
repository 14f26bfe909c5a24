"""A table of Hive's, as its users see it: by Spark's Hive catalog, the metastore and plain files."""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hmsclient.hmsclient import HMSClient

from catalog.hive.partition_names import escape_value
from catalog.locations.paths import parse_metastore_address
from firn.hdfs.files import is_on_hdfs
from server.metastore.security import MetastoreSecurity
from tests.hive_engine import HiveEngine
from tests.integration.hdfs.paths import AnyPath, HdfsPath, path_at
from tests.integration.hive.threeway.oracle_values import WHOLE, File, Part, Place
from tests.integration.keyed.model import Row
from tests.server.metastore.hive_side import HiveSide

NULL = "__HIVE_DEFAULT_PARTITION__"
PARTITIONS: tuple[Part, ...] = ("x", "y y/ü", "z", None)
KEYS = range(1, 9)
LONG_AGO_NS = 1_700_000_000 * 10**9
TICK_NS = 10**6
"""HDFS keeps times in milliseconds."""


@dataclass
class HiveTable:
    """What the table holds, and rows and partitions for those who change it."""

    engine: HiveEngine
    metastore: str
    directory: AnyPath
    """Where the table lies, and what is put beside it."""
    scratch: Path
    """A directory of this machine."""
    name: str
    random: random.Random
    partitioned: bool = True
    managed: bool = False
    columns: dict[str, str] = field(default_factory=lambda: {"id": "BIGINT", "v": "STRING"})
    written: int = 0
    opened: list[AnyPath] = field(default_factory=list)
    """Files that are being written in place: nothing of them is seen yet."""
    security: MetastoreSecurity | None = None
    """How the metastore wants to be asked; None if it lets in everybody."""
    _rows: dict[tuple[str, int, int], tuple[Row, ...]] = field(default_factory=dict)

    def create(self) -> None:
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        by = "PARTITIONED BY (p STRING)" if self.partitioned else ""
        at = "" if self.managed else f"LOCATION '{self.path.as_uri()}'"
        self.engine.sql(f"CREATE TABLE {self.name} ({listed}) STORED AS PARQUET {by} {at}")
        first_rows = [self.row(key) for key in (1, 2, 3)]
        for part, rows in zip(PARTITIONS, (first_rows[:2], first_rows[2:]), strict=False):
            self._insert("INTO", [(row, part) for row in rows])

    # -- what they see ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> AnyPath:
        return self.directory / self.name.rpartition(".")[2]

    def places(self) -> dict[Part, Place]:
        """Where the metastore says that the table is, and the files that lie there."""
        return {part: Place(location, self.files(location)) for part, location in self.locations().items()}

    def locations(self) -> dict[Part, str]:
        database, _, name = self.name.partition(".")
        with self.asking() as hive:
            if not self.partitioned:
                return {WHOLE: plain(hive.get_table(database, name).sd.location)}
            partitions = hive.get_partitions(database, name, -1)
            return {
                None if partition.values == [NULL] else partition.values[0]: plain(partition.sd.location)
                for partition in partitions
            }

    def root(self) -> AnyPath:
        """Where the table itself is."""
        database, _, name = self.name.partition(".")
        with self.asking() as hive:
            return path_at(plain(hive.get_table(database, name).sd.location))

    def files(self, location: str) -> frozenset[File]:
        """Data files of a directory, as Hive lists them: hidden ones are none, and empty ones hold nothing."""
        directory = path_at(location)
        if not location or not directory.is_dir():
            return frozenset()
        files = (path for path in directory.iterdir() if not path.name.startswith(("_", ".")) and path.is_file())
        return frozenset(self._file(location, path) for path in files if path.stat().st_size)

    def _file(self, location: str, path: AnyPath) -> File:
        stat = path.stat()
        identity = (str(path), stat.st_mtime_ns, stat.st_ino)
        if identity not in self._rows:
            table = pq.read_table(pa.BufferReader(path.read_bytes()))
            names = {name.lower(): name for name in table.column_names}
            table_rows = [{low: row[name] for low, name in names.items()} for row in table.to_pylist()]
            self._rows[identity] = tuple(table_rows)
        rows = self._rows[identity]
        return File(location, path.name, stat.st_size, stat.st_mtime_ns, stat.st_ino, rows)

    def rows(self) -> list[Row]:
        """All rows, as a reader of Hive finds them."""
        return [
            self.shown(row, part) for part, place in self.places().items() for file in place.files for row in file.rows
        ]

    def shown(self, row: Row, part: Part) -> Row:
        projected = {name: row.get(name) for name in self.columns}
        return {**projected, "p": part} if self.partitioned else projected

    def rows_by_spark(self) -> list[Row]:
        """The same by Spark, whose Hive catalog it is."""
        names = [*self.columns, *(["p"] if self.partitioned else [])]
        rows = self.engine.sql(f"REFRESH TABLE {self.name}", f"SELECT {', '.join(names)} FROM {self.name}")
        return [dict(zip(names, row, strict=True)) for row in rows]

    @contextmanager
    def asking(self) -> Iterator[HMSClient]:
        transport = None
        if self.security is not None:
            host, port = parse_metastore_address(self.metastore)
            transport = self.security.transport(self.security.socket(host, port), host)
        side = HiveSide(self.metastore, self.scratch, transport)
        try:
            yield side.client
        finally:
            side.close()

    def wait_until_settled(self, others: Iterable[str] = ()) -> None:
        """Until every file, in other directories too, is older than the second in which the next listing begins."""
        places = {*others, *self.locations().values()}
        files = [file for place in places for file in self.files(place)]
        youngest = max((file.mtime_ns // 10**9 for file in files), default=0)
        while time.time() < youngest + 1.01:
            time.sleep(0.02)

    # -- rows that they write --------------------------------------------------------------------------------------

    def row(self, key: int) -> Row:
        self.written += 1
        return {name: key if name == "id" else f"h{self.written}" for name in self.columns}

    def new_rows(self, most: int = 3) -> list[Row]:
        return [self.row(key) for key in self.random.sample(KEYS, self.random.randint(1, most))]

    def some_part(self) -> Part:
        return self.random.choice(PARTITIONS) if self.partitioned else WHOLE

    def listed_part(self, *, named: bool = False) -> Part:
        """One that Hive has; `named` is one with a value, which statements can name."""
        there = [part for part in self.locations() if part is not None or not named]
        return self.random.choice(sorted(there, key=str)) if there else self.made_part()

    def free_part(self) -> str | None:
        """One with a value that Hive has not; None when it has all."""
        free = self._free_parts()
        return self.random.choice(free) if free else None

    def vacant_part(self) -> str | None:
        """One with nothing left of an earlier one in its directory either: Hive moves no directory to where one is."""
        vacant = [part for part in self._free_parts() if not (self.root() / f"p={escape_value(part)}").exists()]
        return self.random.choice(vacant) if vacant else None

    def _free_parts(self) -> list[str]:
        return [part for part in PARTITIONS if part is not None and part not in self.locations()]

    def made_part(self) -> Part:
        self._insert("INTO", [(row, "x") for row in self.new_rows()])
        return "x"

    def write_file(
        self, location: str, rows: Sequence[Row], name: str | None = None, *, young: bool = False
    ) -> AnyPath:
        """As a copy from elsewhere does: under a hidden name, then renamed; it may bring an older time along."""
        self.written += 1
        path = path_at(location) / (name or f"copied-{self.written}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.tmp")
        schema = pa.schema([(column, pa.int64() if column == "id" else pa.string()) for column in self.columns])
        data = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema), data)
        hidden.write_bytes(data.getvalue())
        if not young:
            self.make_old(hidden)
        removed(path)  # before: one that is written over in place may keep its inode
        hidden.rename(str(path))
        return path

    def make_old(self, path: AnyPath) -> None:
        """Give a file an old time that no other one has."""
        set_time(path, LONG_AGO_NS + self.written * TICK_NS)

    def _insert(self, how: str, rows: Sequence[tuple[Row, Part]], partition: str = "") -> None:
        by_name = [*self.columns, *(["p"] if self.partitioned and not partition else [])]
        values = ", ".join(
            f"({', '.join(literal(value) for value in [*row.values(), part][: len(by_name)])})" for row, part in rows
        )
        source = f"VALUES {values}" if rows else f"SELECT {', '.join(['NULL'] * len(by_name))} WHERE false"
        self.engine.sql(f"INSERT {how} {self.name} {partition} {source}")

    def _file_of(self, part: Part) -> AnyPath | None:
        """One of its files, the same for one seed: their names are not."""
        location = self.locations().get(part)
        files = sorted(self.files(location), key=lambda file: file.mtime_ns) if location else []
        return path_at(location) / self.random.choice(files).name if location and files else None


def set_time(path: AnyPath, ns: int) -> None:
    if isinstance(path, HdfsPath):
        path.set_time(ns)
    else:
        os.utime(path, ns=(ns, ns))


def removed(path: AnyPath) -> None:
    """With the checksums that Hadoop keeps beside files on local disks."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def plain(location: str) -> str:
    """A location as a path; that of HDFS as it is."""
    if is_on_hdfs(location):
        return location.rstrip("/")
    return "/" + location.removeprefix("file:").lstrip("/").rstrip("/")


def literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)
