"""Hive's users: what they do to a table, by Spark's Hive catalog, the metastore and plain files, and what they see.

None of it goes through Firn. Whatever is drawn comes from the history's own generator, so a seed does the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.integration.hdfs.paths import AnyPath, HdfsPath, path_at
from tests.integration.hive.threeway.hive_table import KEYS, HiveTable, literal, plain, removed, set_time
from tests.integration.hive.threeway.oracle_values import Part
from tests.integration.hive.threeway.weights import OF_ALL, OF_PARTITIONS
from tests.integration.keyed.model import Row


@dataclass
class HiveUsers(HiveTable):
    """One Hive table and those who work on it; each operation says in a few words what it did."""

    # -- operations ------------------------------------------------------------------------------------------------

    def insert_into(self) -> str:
        rows = [(row, self.some_part()) for row in self.new_rows()]
        self._insert("INTO", rows)
        return describe_rows(rows)

    def overwrite_a_partition(self) -> str:
        """One with a value: Spark cannot name the other one where it has a place of its own."""
        part = self.some_part() or "x"
        rows = [(row, part) for row in self.new_rows()] if self.random.random() < 0.8 else []
        self._insert("OVERWRITE", rows, f"PARTITION (p={literal(part)})" if self.partitioned else "")
        return f"{part}: {describe_rows(rows)}"

    def overwrite_by_values(self) -> str:
        """Only the partitions that rows come to are overwritten."""
        rows = [(row, self.some_part()) for row in self.new_rows()]
        self._insert("OVERWRITE", rows)
        return describe_rows(rows)

    def copy_a_file(self) -> str:
        part = self.listed_part()
        rows = self.new_rows()
        self.write_file(self.locations()[part], rows)
        return f"{part}: {describe_rows([(row, part) for row in rows])}"

    def write_twice_in_a_second(self) -> str:
        """The second under the first one's name, or beside it."""
        part, key = self.listed_part(), self.random.choice(KEYS)
        location, same = self.locations()[part], self.random.random() < 0.5
        first = self.write_file(location, [self.row(key)], young=True)
        self.write_file(location, [self.row(key)], first.name if same else None, young=True)
        return f"{part}: key {key}, {'replaced' if same else 'beside'}"

    def load_data(self) -> str:
        part, rows = self.listed_part(named=True), self.new_rows()
        path = self.write_file(str(self.scratch / "to load"), rows)
        into = f"PARTITION (p={literal(part)})" if self.partitioned else ""
        self.engine.sql(f"LOAD DATA LOCAL INPATH '{path}' INTO TABLE {self.name} {into}")
        return f"{part}: {describe_rows([(row, part) for row in rows])}"

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
        return f"{part}: {path.name} {describe_rows([(row, part) for row in rows])}"

    def move_a_file(self) -> str:
        """To another partition, under another name: by hand, or as LOAD DATA has it."""
        part, is_loaded = self.listed_part(), self.random.random() < 0.3
        others = sorted((location for location in self.locations() if location != part), key=str)
        path = self._file_of(part)
        if path is None or not others:
            return f"{part} has none, or there is no other"
        other = self.random.choice(others)
        self.written += 1
        renamed = path.rename(str(path.with_name(f"moved-{self.written}.parquet")))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if is_loaded and other is not None and "%" not in str(renamed):
            self.engine.sql(f"LOAD DATA INPATH '{renamed}' INTO TABLE {self.name} PARTITION (p={literal(other)})")
        else:
            directory = path_at(self.locations()[other])
            directory.mkdir(parents=True, exist_ok=True)
            renamed.rename(str(directory / renamed.name))
        return f"{renamed.name} of {part} to {other}"

    def open_in_place(self) -> str:
        """What is written under its last name is listed before it holds anything."""
        part = self.listed_part()
        self.written += 1
        path = path_at(self.locations()[part]) / f"in-place-{self.written}.parquet"
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
        whole = self.write_file(str(self.scratch / "to close"), rows).read_bytes()
        if isinstance(path, HdfsPath):
            path.finish(whole)
        else:
            with path.open("r+b") as file:
                file.write(whole)
        self.make_old(path)
        return f"{path.name}: {describe_rows([(row, None) for row in rows])}"

    def leave_unfinished_work(self) -> str:
        """What writers that died, or are at it, have in a partition's directory is none of its files."""
        location = path_at(self.locations()[self.listed_part()])
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
            removed(path_at(file.directory) / file.name)
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
        return f"{part}: {describe_rows([(row, part) for row in rows])}"

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
            if path_at(before).is_dir():
                path_at(before).rename(str(location))
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
            copy(path_at(before) / file.name, location / file.name)
        is_more = self.random.random() < 0.5
        if is_more:
            self.write_file(str(location), rows)
        self._alter(f"PARTITION (p={literal(part)}) SET LOCATION '{location}'")
        return f"{part}: {describe_rows([(row, part) for row in rows]) if is_more else 'as it was'}"

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
        return f"{part}: {describe_rows([(row, part) for row in rows])}"

    def _elsewhere(self, word: str) -> AnyPath:
        """A directory outside of the table's, which no other table has."""
        return self.directory / f"{word} {self.written} of {self.root().name}"

    def _alter(self, change: str) -> None:
        self.engine.sql(f"ALTER TABLE {self.name} {change}")


def copy(path: AnyPath, to: AnyPath) -> None:
    """With its time."""
    to.write_bytes(path.read_bytes())
    set_time(to, path.stat().st_mtime_ns)


def describe_rows(rows: Sequence[tuple[Row, Part]]) -> str:
    return ", ".join(f"{row['id']}={row['v']} in {part}" for row, part in rows) or "no rows"


OPERATIONS: Mapping[str, Callable[[HiveUsers], str]] = {
    name: getattr(HiveUsers, name) for name in (*OF_ALL, *OF_PARTITIONS)
}
