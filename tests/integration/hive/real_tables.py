"""Tables that Hive itself has made, and how both sides show what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_engine import Rows
from tests.hive_lake import NUMBERS, HiveTable, Side
from tests.integration.hive.real_hive import RealHive

ZONE = "America/New_York"
Shown = list[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class RealSide(Side):
    """One server, and the Hive beside it."""

    real: RealHive
    metastore: EmbeddedMetastore

    def here(self, statement: str) -> Rows:
        """A statement on our side, by an engine that stands where Hive does."""
        try:
            return self.hive.sql(f"SET TIME ZONE '{ZONE}'", statement)
        finally:
            self.hive.sql("SET TIME ZONE 'UTC'")

    def create_table(
        self, columns: str, partitioned_by: str = "", *, kind: str = "PARQUET", external: bool = True
    ) -> RealTable:
        """An empty table of Hive's; by its defaults one that is not external becomes one whose files it deletes."""
        real_table = RealTable(self, f"t{next(NUMBERS)}", its=self)
        by = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        where = f"LOCATION '{real_table.path.as_uri()}'" if external else ""
        self.real.sql(
            f"CREATE {'EXTERNAL' if external else ''} TABLE {real_table.name} ({columns}) {by} STORED AS {kind} {where}"
        )
        return real_table


@dataclass(frozen=True, kw_only=True)
class RealTable(HiveTable):
    """One of them; `hive_rows` and what changes it go to Hive itself."""

    its: RealSide

    def do(self, *statements: str) -> Self:
        """Statements of Hive's, with `{t}` for the table's name."""
        self.its.real.sql(*(statement.replace("{t}", self.name) for statement in statements))
        return self

    def upserted(self, values: str) -> Self:
        """A change on our side, by an engine that stands where Hive does."""
        self.its.here(
            f"INSERT INTO {self.side.lake}.{self.name}.change SELECT *, 'U', CAST(NULL AS STRING) FROM ({values})"
        )
        return self

    def theirs(self, shown: Sequence[str], where: str = "true") -> Shown:
        """What Hive shows of these expressions, as text."""
        return self.its.real.sql(f"SELECT {', '.join(shown)} FROM {self.name} WHERE {where}")

    def ours(self, shown: Sequence[str], store: str = "") -> Shown:
        """The same from the view, in Hive's time zone and as Hive would print it."""
        columns = ", ".join(f"coalesce(CAST({column} AS STRING), 'NULL')" for column in shown)
        return sorted(self.its.here(f"SELECT {columns} FROM {self.side.lake}.{self.name}{store}"))
