"""One table with work for each kind of job, how to tell that it was done, and that nothing else was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.worker import Worker
from tests.integration.keyed.appends import Store
from tests.integration.optimizer import dated_tables, overwritten_tables, plain_tables, stray_files
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

Make = Callable[[RunningServer, Worker], KeyedTable]


def pending(server: RunningServer, worker: Worker) -> KeyedTable:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})
    table.upsert((1, "a"), (2, "b"))
    table.run("merge")
    table.upsert((2, "B"))
    table.delete((1,), columns="id BIGINT")
    return table


def deleted_from(server: RunningServer, worker: Worker) -> KeyedTable:
    merging = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **merging)
    server.spark.sql(
        f"INSERT INTO {table.name} SELECT /*+ REPARTITION(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    )
    for key in (1, 2):
        server.spark.sql(f"DELETE FROM {table.name} WHERE id = {key}")
    return table


def appended(server: RunningServer, worker: Worker) -> KeyedTable:
    table = plain_tables.plain(server, worker)
    for key in range(3):
        plain_tables.insert(table, (key, "a", "x"))
    return table


def overwritten(server: RunningServer, worker: Worker) -> KeyedTable:
    table = overwritten_tables.plain(server, worker)
    overwritten_tables.overwritten(table, 1, 2, 3)
    return table


def aging(server: RunningServer, worker: Worker) -> KeyedTable:
    table = dated_tables.keyed(server, worker, **{"firn.ttl.whole-partitions": "false"})
    table.upsert(dated_tables.row(1, 20), dated_tables.row(2, 0))
    table.run("merge")
    table.upsert(dated_tables.row(3, 30), dated_tables.row(4, 1))
    return table


def tagged(server: RunningServer, worker: Worker) -> KeyedTable:
    """A head as old as the last moment of the schedule: of a younger one there was none to be tagged."""
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.tags.schedule": "* * * * *"})
    dated_tables.append_an_hour_ago(Store(server.http, tuple(table.short.split("."))))
    return table


def repeated(server: RunningServer, worker: Worker) -> KeyedTable:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})
    for _ in range(2):
        server.spark.sql(f"INSERT INTO {table.name}.base VALUES (1, 'a'), (2, 'b')")
    return table


def littered(server: RunningServer, worker: Worker) -> KeyedTable:
    table = appended(server, worker)
    place = stray_files.location_of(server, table, "table")
    stray_files.age(place)
    stray_files.stray(place, "data/x.parquet")
    return table


def number(table: KeyedTable, of: str, where: str = "true") -> int:
    return int(table.server.rows(f"SELECT count(*) FROM {table.name}{of} WHERE {where}")[0][0])


def metadata(table: KeyedTable) -> dict[str, Any]:
    namespace, name = table.short.split(".")
    answer = table.server.http.get(f"/iceberg/v1/lake/namespaces/{namespace}/tables/{name}")
    loaded: dict[str, Any] = answer.raise_for_status().json()["metadata"]
    return loaded


@dataclass(frozen=True)
class Kind:
    """A table with work for one kind of job, and how to tell that the work was done, once."""

    make: Make
    is_done: Callable[[KeyedTable], bool]
    stores: tuple[str, ...] = ("",)
    options: Mapping[str, Any] = field(default_factory=dict)


KEYED = (".base", ".change")


def is_merged(table: KeyedTable) -> bool:
    """A merge that dies before its clean has succeeded: what it leaves is the next one's to take away."""
    if number(table, ".change.files") > 0:
        table.run("merge")
    return number(table, ".change.files") == 0 and table.rows(".base") == [(2, "B")]


KINDS = {
    "merge": Kind(pending, is_merged, KEYED),
    "compact": Kind(pending, lambda table: number(table, ".change.files") == 1, KEYED),
    "rewrite": Kind(appended, lambda table: number(table, ".data_files") == 1),
    "rewrite-deletes": Kind(deleted_from, lambda table: number(table, ".delete_files") == 1),
    "rewrite-manifests": Kind(appended, lambda table: number(table, ".manifests") == 1),
    "expire": Kind(overwritten, lambda table: number(table, ".snapshots") == 1),
    "ttl": Kind(aging, lambda table: dated_tables.ids(table) == dated_tables.ids(table, ".base") == [2, 4], KEYED),
    "statistics": Kind(appended, lambda table: len(metadata(table)["statistics"]) == 1),
    "tags": Kind(tagged, lambda table: number(table, ".refs", "type = 'TAG'") > 0),
    "keys": Kind(repeated, lambda table: table.rows(".base") == [(1, "a"), (2, "b")], KEYED, options={"resolve": True}),
    "remove-orphans": Kind(
        littered, lambda table: not list(stray_files.location_of(table.server, table, "table").glob("data/x*"))
    ),
}
IN_CI = ("expire", "ttl")


def is_over(server: RunningServer, job_id: str) -> bool:
    """False too while the server cannot tell."""
    answer = server.http.get(f"/api/v1/jobs/{job_id}")
    return answer.is_success and bool(answer.json()["status"] == "succeeded")


def left(kind: str, before: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What readers see after such a job; most kinds change nothing of it."""
    if kind == "keys":
        return sorted({*before})
    return [row for row in before if kind != "ttl" or row[0] in {2, 4}]


def check(table: KeyedTable, kind: str, before: list[tuple[Any, ...]]) -> None:
    assert KINDS[kind].is_done(table)
    assert table.rows() == left(kind, before)
    for store in KINDS[kind].stores:
        assert not overwritten_tables.lost(overwritten_tables.files_of(table.server, f"{table.name}{store}"))
    jobs = table.server.get(f"catalogs/lake/tables/{table.short}/jobs")["items"]
    jobs_of_kind = [job for job in jobs if job["kind"] == kind]  # a planner may have begun something else meanwhile
    assert {job["status"] for job in jobs_of_kind} == {"succeeded"}, jobs_of_kind
