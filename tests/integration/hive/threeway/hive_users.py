"""Hive's users: what they do to a table, by Spark's Hive catalog, the metastore and plain files, and what they see.

None of it goes through Firn. Whatever is drawn comes from the history's own generator, so a seed does the same again.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hmsclient.hmsclient import HMSClient

from catalog.hive.partition_names import escape_value
from tests.hive_engine import HiveEngine
from tests.integration.hive.threeway.oracle import WHOLE, File, Part, Place
from tests.integration.keyed.model import Row
from tests.server.metastore.hive_side import HiveSide

NULL = "__HIVE_DEFAULT_PARTITION__"
PARTITIONS: tuple[Part, ...] = ("x", "y y/ü", "z", None)
KEYS = range(1, 9)
LONG_AGO_NS = 1_700_000_000 * 10**9


@dataclass
class HiveUsers:
    """One Hive table and those who work on it; each operation says in a few words what it did."""

    engine: HiveEngine
    metastore: str
    directory: Path
    """Where the table lies, and what is put beside it."""
    name: str
    random: random.Random
    partitioned: bool = True
    managed: bool = False
    columns: dict[str, str] = field(default_factory=lambda: {"id": "BIGINT", "v": "STRING"})
    written: int = 0
    opened: list[Path] = field(default_factory=list)
    """Files that are being written in place: nothing of them is seen yet."""
    _rows: dict[tuple[str, int, int], tuple[Row, ...]] = field(default_factory=dict)

    def create(self) -> None:
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        by = "PARTITIONED BY (p STRING)" if self.partitioned else ""
        at = "" if self.managed else f"LOCATION '{self.path.as_uri()}'"
        self.engine.sql(f"CREATE TABLE {self.name} ({listed}) STORED AS PARQUET {by} {at}")
        told = [self.row(key) for key in (1, 2, 3)]
        for part, rows in zip(PARTITIONS, (told[:2], told[2:]), strict=False):
            self._insert("INTO", [(row, part) for row in rows])

    # -- what they see ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self.directory / self.name.rpartition(".")[2]

    def places(self) -> dict[Part, Place]:
        """Where the metastore says that the table is, and the files that lie there."""
        return {part: Place(location, self.files(location)) for part, location in self.locations().items()}

    def locations(self) -> dict[Part, str]:
        database, _, name = self.name.partition(".")
        with self.asking() as hive:
            if not self.partitioned:
                return {WHOLE: plain(hive.get_table(database, name).sd.location)}
            found = hive.get_partitions(database, name, -1)
            return {None if one.values == [NULL] else one.values[0]: plain(one.sd.location) for one in found}

    def files(self, location: str) -> frozenset[File]:
        """Data files of a directory, as Hive lists them: hidden ones are none, and empty ones hold nothing."""
        directory = Path(location)
        if not location or not directory.is_dir():
            return frozenset()
        found = (path for path in directory.iterdir() if not path.name.startswith(("_", ".")) and path.is_file())
        return frozenset(self._file(location, path) for path in found if path.stat().st_size)

    def _file(self, location: str, path: Path) -> File:
        stat = path.stat()
        identity = (str(path), stat.st_mtime_ns, stat.st_ino)
        if identity not in self._rows:
            table = pq.read_table(path, partitioning=None)
            names = {name.lower(): name for name in table.column_names}
            told = [{low: row[name] for low, name in names.items()} for row in table.to_pylist()]
            self._rows[identity] = tuple(told)
        rows = self._rows[identity]
        return File(location, path.name, stat.st_size, stat.st_mtime_ns, stat.st_ino, rows)

    def rows(self) -> list[Row]:
        """All rows, as a reader of Hive finds them."""
        return [self.shown(row, part) for part, one in self.places().items() for file in one.files for row in file.rows]

    def shown(self, row: Row, part: Part) -> Row:
        told = {name: row.get(name) for name in self.columns}
        return {**told, "p": part} if self.partitioned else told

    def rows_by_spark(self) -> list[Row]:
        """The same by Spark, whose Hive catalog it is."""
        names = [*self.columns, *(["p"] if self.partitioned else [])]
        found = self.engine.sql(f"REFRESH TABLE {self.name}", f"SELECT {', '.join(names)} FROM {self.name}")
        return [dict(zip(names, row, strict=True)) for row in found]

    @contextmanager
    def asking(self) -> Iterator[HMSClient]:
        side = HiveSide(self.metastore, self.directory)
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

    def write_file(self, location: str, rows: Sequence[Row], name: str | None = None, *, young: bool = False) -> Path:
        """As a copy from elsewhere does: under a hidden name, then renamed; it may bring an older time along."""
        self.written += 1
        path = Path(location) / (name or f"copied-{self.written}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.tmp")
        schema = pa.schema([(column, pa.int64() if column == "id" else pa.string()) for column in self.columns])
        pq.write_table(pa.Table.from_pylist(list(rows), schema), hidden)
        if not young:
            os.utime(hidden, ns=(LONG_AGO_NS + self.written, LONG_AGO_NS + self.written))
        removed(path)  # before: one that is written over in place may keep its inode
        hidden.rename(path)
        return path

    def _insert(self, how: str, rows: Sequence[tuple[Row, Part]], partition: str = "") -> None:
        by_name = [*self.columns, *(["p"] if self.partitioned and not partition else [])]
        values = ", ".join(
            f"({', '.join(literal(value) for value in [*row.values(), part][: len(by_name)])})" for row, part in rows
        )
        source = f"VALUES {values}" if rows else f"SELECT {', '.join(['NULL'] * len(by_name))} WHERE false"
        self.engine.sql(f"INSERT {how} {self.name} {partition} {source}")

    def _file_of(self, part: Part) -> Path | None:
        """One of its files, the same for one seed: their names are not."""
        location = self.locations().get(part)
        files = sorted(self.files(location), key=lambda file: file.mtime_ns) if location else []
        return Path(location or "", self.random.choice(files).name) if files else None

    # -- operations ------------------------------------------------------------------------------------------------

    def insert_into(self) -> str:
        rows = [(row, self.some_part()) for row in self.new_rows()]
        self._insert("INTO", rows)
        return told(rows)

    def overwrite_a_partition(self) -> str:
        """One with a value: Spark cannot name the other one where it has a place of its own."""
        part = self.some_part() or "x"
        rows = [(row, part) for row in self.new_rows()] if self.random.random() < 0.8 else []
        self._insert("OVERWRITE", rows, f"PARTITION (p={literal(part)})" if self.partitioned else "")
        return f"{part}: {told(rows)}"

    def overwrite_by_values(self) -> str:
        """Only the partitions that rows come to are overwritten."""
        rows = [(row, self.some_part()) for row in self.new_rows()]
        self._insert("OVERWRITE", rows)
        return told(rows)

    def copy_a_file(self) -> str:
        part = self.listed_part()
        rows = self.new_rows()
        self.write_file(self.locations()[part], rows)
        return f"{part}: {told([(row, part) for row in rows])}"

    def write_twice_in_a_second(self) -> str:
        """The second under the first one's name, or beside it."""
        part, key = self.listed_part(), self.random.choice(KEYS)
        location, same = self.locations()[part], self.random.random() < 0.5
        first = self.write_file(location, [self.row(key)], young=True)
        self.write_file(location, [self.row(key)], first.name if same else None, young=True)
        return f"{part}: key {key}, {'replaced' if same else 'beside'}"

    def load_data(self) -> str:
        part, rows = self.listed_part(named=True), self.new_rows()
        path = self.write_file(str(self.directory / "to load"), rows)
        into = f"PARTITION (p={literal(part)})" if self.partitioned else ""
        self.engine.sql(f"LOAD DATA LOCAL INPATH '{path}' INTO TABLE {self.name} {into}")
        return f"{part}: {told([(row, part) for row in rows])}"

    def remove_a_file(self) -> str:
        part = self.listed_part()
        if (path := self._file_of(part)) is None:
            return f"{part} has none"
        removed(path)
        return f"{part}: {path.name}"

    def replace_a_file(self) -> str:
        part = self.listed_part()
        path, rows = self._file_of(part), self.new_rows()
        if path is None:
            return f"{part} has none"
        self.write_file(str(path.parent), rows, path.name)
        return f"{part}: {path.name} {told([(row, part) for row in rows])}"

    def move_a_file(self) -> str:
        """To another partition, under another name: by hand, or as LOAD DATA has it."""
        part, is_loaded = self.listed_part(), self.random.random() < 0.3
        others = sorted((one for one in self.locations() if one != part), key=str)
        path = self._file_of(part)
        if path is None or not others:
            return f"{part} has none, or there is no other"
        other = self.random.choice(others)
        self.written += 1
        renamed = path.rename(path.with_name(f"moved-{self.written}.parquet"))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if is_loaded and other is not None and "%" not in str(renamed):
            self.engine.sql(f"LOAD DATA INPATH '{renamed}' INTO TABLE {self.name} PARTITION (p={literal(other)})")
        else:
            directory = Path(self.locations()[other])
            directory.mkdir(parents=True, exist_ok=True)
            renamed.rename(directory / renamed.name)
        return f"{renamed.name} of {part} to {other}"

    def open_in_place(self) -> str:
        """What is written under its last name is listed before it holds anything."""
        part = self.listed_part()
        self.written += 1
        path = Path(self.locations()[part]) / f"in-place-{self.written}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.opened.append(path)
        return f"{part}: {path.name}"

    def close_in_place(self) -> str:
        """The oldest one, if nobody has removed it or its directory: no directory's time moves."""
        path = self.opened.pop(0) if self.opened else None
        if path is None or not path.is_file():
            return "there is none"
        rows = self.new_rows()
        whole = self.write_file(str(self.directory / "to close"), rows)
        with path.open("r+b") as file:
            file.write(whole.read_bytes())
        os.utime(path, ns=(LONG_AGO_NS + self.written, LONG_AGO_NS + self.written))
        return f"{path.name}: {told([(row, None) for row in rows])}"

    def leave_unfinished_work(self) -> str:
        """What writers that died, or are at it, have in a partition's directory is none of its files."""
        location = Path(self.locations()[self.listed_part()])
        for below in ("_temporary/0/task_1", ".hive-staging_hive_2026/-ext-10000"):
            self.write_file(str(location / below), [self.row(99)])
        (location / "_SUCCESS").write_bytes(b"")
        return str(location)

    def truncate(self) -> str:
        part = self.listed_part()
        if self.managed:
            spec = f"PARTITION (p={literal(part)})" if self.partitioned and part is not None else ""
            if part is not None:
                self.engine.sql(f"TRUNCATE TABLE {self.name} {spec}")
                return str(part)
        for file in self.files(self.locations()[part]):
            removed(Path(file.directory, file.name))
        return f"{part}, by removing its files"

    def add_column(self) -> str:
        if len(self.columns) > 3:
            return "there are enough"
        name = f"c{len(self.columns)}"
        self.engine.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({name} STRING)")
        self.columns[name] = "STRING"
        return name

    def add_partition(self) -> str:
        part = self.free_part()
        if part is None:
            return "there is none to add"
        rows = self.new_rows() if self.random.random() < 0.7 else []
        self.written += 1
        location = self._elsewhere("added")
        location.mkdir(parents=True)
        if rows:
            self.write_file(str(location), rows)
        self._alter(f"ADD PARTITION (p={literal(part)}) LOCATION '{location}'")
        return f"{part}: {told([(row, part) for row in rows])}"

    def drop_partition(self) -> str:
        part = self.listed_part(named=True)
        self._alter(f"DROP PARTITION (p={literal(part)})")
        return str(part)

    def drop_and_add_partition(self) -> str:
        """Back where it was, its files as they are: those of a managed table go."""
        part = self.listed_part(named=True)
        location = self.locations()[part]
        self._alter(f"DROP PARTITION (p={literal(part)})")
        self._alter(f"ADD PARTITION (p={literal(part)}) LOCATION '{location}'")
        return str(part)

    def rename_partition(self) -> str:
        free, part = self.vacant_part(), self.listed_part(named=True)
        if free is None or free == part:
            return "there is no free name"
        before = self.locations()[part]
        self._alter(f"PARTITION (p={literal(part)}) RENAME TO PARTITION (p={literal(free)})")
        if self.locations()[free] == before:  # of a table that is not Hive's own; the next p=… would share it
            self.written += 1
            location = self._elsewhere("renamed")
            if Path(before).is_dir():
                Path(before).rename(location)
            self._alter(f"PARTITION (p={literal(free)}) SET LOCATION '{location}'")
        return f"{part} to {free}"

    def set_location(self) -> str:
        """A copy of it, with or without a file of its own."""
        part = self.listed_part(named=True)
        self.written += 1
        location, rows = self._elsewhere("moved"), self.new_rows()
        before = self.locations()[part]
        location.mkdir(parents=True)
        for file in sorted(self.files(before), key=lambda file: file.mtime_ns):
            shutil.copy2(Path(before, file.name), location / file.name)
        is_more = self.random.random() < 0.5
        if is_more:
            self.write_file(str(location), rows)
        self._alter(f"PARTITION (p={literal(part)}) SET LOCATION '{location}'")
        return f"{part}: {told([(row, part) for row in rows]) if is_more else 'as it was'}"

    def repair(self) -> str:
        """Directories that nobody told the metastore of, such as those of dropped partitions, become partitions."""
        part = self.free_part()
        if part is not None and " " not in str(part) and self.random.random() < 0.5:
            self.write_file(str(self.root() / f"p={part}"), self.new_rows())
        before = self.locations()
        self.engine.sql(f"MSCK REPAIR TABLE {self.name}")
        return f"found {sorted(map(str, self.locations().keys() - before.keys()))}"

    def exchange_partition(self) -> str:
        """Another table's partition becomes this one's: its directory is moved."""
        part = self.vacant_part()
        if part is None:
            return "there is none to be given"
        self.written += 1
        database, _, name = self.name.partition(".")
        other, rows = f"{name}_other{self.written}", self.new_rows()
        location = self.directory / other
        listed = ", ".join(f"{column} {kind}" for column, kind in self.columns.items())
        self.engine.sql(
            f"CREATE TABLE {database}.{other} ({listed}) STORED AS PARQUET PARTITIONED BY (p STRING)"
            f" LOCATION '{location.as_uri()}'",
            f"ALTER TABLE {database}.{other} ADD PARTITION (p={literal(part)})",
        )
        with self.asking() as hive:
            there = plain(hive.get_partition(database, other, [str(part)]).sd.location)
            self.write_file(there, rows)
            hive.exchange_partition({"p": str(part)}, database, other, database, name)
        return f"{part}: {told([(row, part) for row in rows])}"

    def root(self) -> Path:
        """Where the table itself is."""
        database, _, name = self.name.partition(".")
        with self.asking() as hive:
            return Path(plain(hive.get_table(database, name).sd.location))

    def _elsewhere(self, word: str) -> Path:
        """A directory outside of the table's, which no other table has."""
        return self.directory / f"{word} {self.written} of {self.root().name}"

    def _alter(self, what: str) -> None:
        self.engine.sql(f"ALTER TABLE {self.name} {what}")


def removed(path: Path) -> None:
    """With the checksums that Hadoop keeps beside files on local disks."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def plain(location: str) -> str:
    """A location as a path."""
    return "/" + location.removeprefix("file:").lstrip("/").rstrip("/")


def literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def told(rows: Sequence[tuple[Row, Part]]) -> str:
    return ", ".join(f"{row['id']}={row['v']} in {part}" for row, part in rows) or "no rows"


OF_ALL: Mapping[str, int] = {
    "insert_into": 5,
    "overwrite_a_partition": 4,
    "overwrite_by_values": 2,
    "copy_a_file": 5,
    "write_twice_in_a_second": 1,
    "load_data": 2,
    "remove_a_file": 3,
    "replace_a_file": 2,
    "leave_unfinished_work": 1,
    "open_in_place": 2,
    "close_in_place": 2,
    "truncate": 2,
    "add_column": 1,
}
OF_PARTITIONS: Mapping[str, int] = {
    "add_partition": 3,
    "drop_partition": 3,
    "drop_and_add_partition": 1,
    "rename_partition": 2,
    "move_a_file": 4,
    "set_location": 2,
    "repair": 2,
    "exchange_partition": 2,
}
OPERATIONS: Mapping[str, Callable[[HiveUsers], str]] = {
    name: getattr(HiveUsers, name) for name in (*OF_ALL, *OF_PARTITIONS)
}
