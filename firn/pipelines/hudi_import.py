"""`firn pipeline init NAME FILE --from hudi`: each target of a Hudi Streamer becomes a table, its SQL a query.

Firn reads the configuration alone, and runs nothing. What has no counterpart is in the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from firn.errors import FirnError
from firn.pipelines.hudi_files import StreamerSettings, read_streamer
from firn.pipelines.hudi_transformers import Chain
from firn.pipelines.imported import DIALECT, Import, write_query
from firn.pipelines.parsing import parse_query
from firn.protocol.names import join_name, quote_name

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_RECORD_KEY: Final = ("hoodie.datasource.write.recordkey.field", "hoodie.table.recordkey.fields")
_ORDERING: Final = (
    "--source-ordering-field",
    "--source-ordering-fields",
    "hoodie.datasource.write.precombine.field",
    "hoodie.table.precombine.field",
    "hoodie.table.ordering.fields",
)
_DATABASE: Final = (
    "hoodie.datasource.hive_sync.database",
    "hoodie.datasource.meta.sync.database",
    "hoodie.database.name",
)
_TABLE: Final = (
    "hoodie.datasource.hive_sync.table",
    "--target-table",
    "hoodie.table.name",
    "hoodie.datasource.write.table.name",
)
_SOURCES: Final = {
    "source.hoodieincr.path": "correct the name if that is another one",
    "source.dfs.root": "a directory of files, which you load into it",
    "source.kafka.topic": "a Kafka topic, which a stream writes into it",
    "jdbc.table.name": "a table of a database, which change data capture writes into it",
}
"""Where a Streamer reads, by property; what Firn needs for it."""
_INSERTS: Final = ("insert", "bulk_insert")
_KNOWN_PAYLOADS: Final = (
    "DefaultHoodieRecordPayload",
    "OverwriteWithLatestAvroPayload",
    "EventTimeAvroPayload",
    "HoodieAvroPayload",
)
_DELETED: Final = "_hoodie_is_deleted"
_VALIDATORS: Final = "hoodie.precommit.validators"
_SINGLE: Final = f"{_VALIDATORS}.single.value.sql.queries"
_SQL: Final = ("transformer.sql", ".queries")
_WITHOUT_EFFECT: Final = tuple(
    f"hoodie.{name}"
    for name in """
    archive auto. avro. base.path bloom. bulkinsert. clean. cleaner. client. clustering. combine. compact consistency.
    datasource.hive_sync. datasource.meta.sync. datasource.write.hive_style datasource.write.keygenerator
    datasource.write.reconcile datasource.write.row. datasource.write.table.type delete. embed. fail. file filesystem.
    finalize. global. index. insert. keep. layout. logfile. markers. memory. meta.sync. metadata. metrics. parquet.
    rollback. simple. table.base table.keygenerator table.type table.version upsert. write.
    """.split()  # noqa: SIM905 -- a list would take a line for each
) + tuple(
    f"hoodie.{tool}.{name}"
    for tool in ("streamer", "deltastreamer")
    for name in ("checkpoint.", "kafka.", "sample.", "schemaprovider.", "source.", "sync.")
)
"""Properties about files, jobs, catalogs and rates: the rows of the table do not depend on them."""


def import_hudi(path: Path, catalog: str = "lake") -> Import:
    """The folder of the targets of a file. Raises Invalid for a file that configures no Streamer."""
    result = Import(re.sub(r"\W+", "_", path.stem)[:100].strip("_") or "imported", catalog)
    for settings in read_streamer(path):
        _Target(settings, result).add()
    return result


class _Target:
    def __init__(self, settings: StreamerSettings, result: Import) -> None:
        self.settings = settings
        self.result = result
        self.database = settings.get(*_DATABASE) or "default"
        self.table = settings.get(*_TABLE) or "imported"
        self.name = join_name([self.database, self.table])
        self.source = self._read_source()
        result.namespace = result.namespace or self.database

    def add(self) -> None:
        if self.name in self.result.statements:
            self.miss("an earlier part of the file defines this table, too: give one of them another name")
            return
        names_in_use = frozenset(name.lower() for name in self.result.statements)
        chain = Chain(self.settings, self.result, self.name, self.table, _quote(self.source), names_in_use)
        try:
            query = chain.read()
            table = self._read_table()
            text = f"{self._write_head()} AS\n{write_query(self._deduplicate(query, table))};\n"
        except (FirnError, SqlglotError) as error:
            hint = error.hint if isinstance(error, FirnError) and error.hint else "write it by hand"
            self.miss(f"it was not imported: {str(error)[:300]}; {hint}")
            return
        self.result.statements |= chain.views | {self.name: text}
        self.result.tables |= {self.name: table} if table else {}
        self._report_query(query)
        self._report_settings()

    def miss(self, text: str) -> None:
        """Report a gap of this target."""
        self.result.miss(self.name, text)

    def _read_source(self) -> list[str]:
        """The parts of the input's name. The report says which table Firn takes it for."""
        for name, remedy in _SOURCES.items():
            if place := self.settings.get_streamer(name):
                parts = _name_table(place, self.database, is_path=name.endswith(("path", "root")))
                self.miss(f"its source {place[:200]} is read as the table {join_name(parts)}: {remedy}")
                return parts
        self.miss(f"its source is not known, and read as the table {self.database}.source: correct the name")
        return [self.database, "source"]

    def _write_head(self) -> str:
        head = f"CREATE MATERIALIZED VIEW {_quote([self.database, self.table])}"
        fields = self.settings.get("hoodie.datasource.write.partitionpath.field", "hoodie.table.partition.fields")
        columns = _split(fields)
        if all(map(_NAME.fullmatch, columns)):
            return head + (f"\nPARTITIONED BY ({', '.join(columns)})" if columns else "")
        self.miss(f"its partitions {fields[:200]!r} are no columns: write PARTITIONED BY (days(column)) or alike")
        return head

    def _read_table(self) -> dict[str, Any]:
        """The settings of the table in `firn-pipeline.yml`."""
        table: dict[str, Any] = {}
        operation = (self.settings.get("--op", "hoodie.datasource.write.operation") or "upsert").lower()
        key = _split(self.settings.get(*_RECORD_KEY))
        if operation in _INSERTS or not key:
            table |= {"mode": "append", "streams": [join_name(self.source)]}
        elif all(map(_NAME.fullmatch, key)):
            table["key"] = key
        else:
            self.miss(f"its key {', '.join(key)[:200]!r} is no column: select it as one, and name that as key")
        if operation not in (*_INSERTS, "upsert"):
            self.miss(f"the operation {operation[:50]} has no counterpart: the table has the rows of its query")
        validators = list(self._read_validators())
        return table | self._read_trigger() | ({"validate": validators} if validators else {})

    def _read_trigger(self) -> dict[str, Any]:
        if self.settings.get("--continuous") != "true":
            return {}
        text = self.settings.get("--min-sync-interval-seconds")
        seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
        return {"trigger": {"fresh_within": f"{seconds} s"} if seconds else {"on": "commit"}}

    def _read_validators(self) -> Iterator[dict[str, Any]]:
        """Queries with one expected value: `SELECT … FROM <TABLE_NAME>#VALUE`, several with semicolons."""
        for number, text in enumerate(_split(self.settings.get(_SINGLE), ";"), 1):
            query, mark, expected = text.rpartition("#")
            if mark and query.strip() and expected.strip():
                query = query.replace("<TABLE_NAME>", "audited").strip()
                yield {"sql": query, "expect": expected.strip(), "name": f"validator {number}"}
            else:
                self.miss(f"the validator {text[:200]!r} has no expected value")

    def _deduplicate(self, query: exp.Query, table: Mapping[str, Any]) -> exp.Query:
        """The row of each key with the highest ordering field, as upserts keep it."""
        key, ordering = table.get("key", []), _split(self.settings.get(*_ORDERING))
        if not key or _is_grouped_by(query, key):
            return query
        if not ordering or not all(map(_NAME.fullmatch, ordering)):
            self.miss("it has no ordering field: a run fails if the query gives two rows for a key")
            return query
        order = ", ".join(f"{column} DESC" for column in ordering)
        rank = f"row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY {order})"
        text = query.sql(DIALECT, comments=False)
        return parse_query(f"SELECT * FROM ({text}) AS transformed QUALIFY {rank} = 1")  # noqa: S608 -- is parsed

    def _report_query(self, query: exp.Query) -> None:
        if query.find(exp.AggFunc) is not None or query.find(exp.Group) is not None:
            self.miss("its query has groups: the Streamer computed them for each batch alone, Firn does over all rows")
        names = sorted({column.name for column in query.find_all(exp.Column) if column.name.startswith("_hoodie_")})
        if _DELETED in names:
            self.miss(f"rows with {_DELETED} were deletes: leave them out with WHERE, and do not select the column")
        if others := [name for name in names if name != _DELETED]:
            self.miss(f"it reads {', '.join(others)[:200]}, which only tables of Hudi have: leave them out")

    def _report_settings(self) -> None:
        settings = self.settings
        payload = settings.get(
            "--payload-class", "hoodie.datasource.write.payload.class", "hoodie.compaction.payload.class"
        )
        if payload and payload.rpartition(".")[2] not in _KNOWN_PAYLOADS:
            self.miss(f"the payload {payload[:200]} merges rows by Java code: write its rule in SQL")
        for name in _split(settings.get(_VALIDATORS)):
            if not name.endswith("SqlQuerySingleResultPreCommitValidator"):
                self.miss(f"the validator {name[:200]} has no counterpart: write one with sql or row_count")
        if settings.get("--checkpoint"):
            self.miss("its checkpoint is not taken over: the first run computes all rows")
        for name in sorted(settings.used):
            if "$" in settings.values.get(name, "") and not name.endswith(_SQL):
                self.miss(f"{name} has a variable of the shell: write its value")
        for name in settings.list_unused():
            if not name.startswith(_WITHOUT_EFFECT):
                self.miss(f"{name[:200]} has no counterpart")


def _split(text: str, separator: str = ",") -> list[str]:
    return [part for part in (entry.strip() for entry in text.split(separator)) if part]


def _quote(parts: Sequence[str]) -> str:
    return ".".join(map(quote_name, parts))


def _name_table(place: str, database: str, *, is_path: bool) -> list[str]:
    """The table for a place: the last two parts of a path, such as `…/raw.db/trip`; otherwise one name."""
    if not is_path:
        return [database, re.sub(r"\W+", "_", place)[:200]]
    path = re.sub(r"^\w+:(//[^/]*)?", "", place)
    parts = [part for part in path.split("/") if part not in ("", ".", "..", "*")]
    names = [re.sub(r"\W+", "_", part.removesuffix(".db"))[:200] for part in parts[-2:]]
    return names if len(names) > 1 else [database, *(names or ["source"])]


def _is_grouped_by(query: exp.Query, key: Sequence[str]) -> bool:
    """Whether GROUP BY makes the key unique: it groups by nothing but columns of the key."""
    group = query.args.get("group") if isinstance(query, exp.Select) else None
    if group is None or set(group.args) - {"expressions"} or not group.expressions:
        return False
    names = {name.lower() for name in key}
    kept = {column.name.lower() for column in query.selects if isinstance(column, exp.Column)}
    return all(isinstance(part, exp.Column) and part.name.lower() in names & kept for part in group.expressions)
