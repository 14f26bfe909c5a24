"""Flink, with Iceberg's catalog for it, on a Firn catalog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table

import firn
from tests.integration.engines.duck import duckdb
from tests.integration.engines.flink import BATCH, STREAMING, Flink, Refused, Session
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.timeout(300)

CHECKPOINTS = {"execution.checkpointing.interval": "300 ms"}
GOES_ON = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}
_numbers = count(1)


def catalog(url: str, **options: str) -> str:
    properties = {"type": "iceberg", "catalog-type": "rest", "uri": f"{url}/iceberg", "warehouse": "lake", **options}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    return f"CREATE CATALOG lake WITH ({listed})"


class Database:
    """A database of the test's own; `batch` is in it."""

    def __init__(self, flink: Flink, server: ServerProcess) -> None:
        self.flink, self.server, self.name = flink, server, f"flink{next(_numbers)}"
        self.others: Catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
        self.others.create_namespace(self.name)
        self.batch = self.session()

    def session(self, mode: str = BATCH, options: dict[str, str] | None = None, url: str | None = None) -> Session:
        session = self.flink.session(mode, options)
        session.sql(catalog(url or self.server.url), "USE CATALOG lake", f"USE {self.name}")
        return session

    def table(self, name: str = "t") -> Table:
        """As PyIceberg sees it."""
        return self.others.load_table((self.name, name))

    def tables(self) -> list[str]:
        return sorted(name for _, name in self.others.list_tables(self.name))


@pytest.fixture
def here(flink: Flink, on_sqlite: ServerProcess) -> Database:
    return Database(flink, on_sqlite)


def numbers(upto: int, a_second: int) -> str:
    """The numbers from 1 on; the source keeps in its checkpoints how far it has come."""
    return (
        "CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
        f"'fields.id.start' = '1', 'fields.id.end' = '{upto}', 'rows-per-second' = '{a_second}')"
    )


def ids(table: Table) -> list[int]:
    ids: list[int] = table.refresh().scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


def wait_for_snapshots(table: Table, at_least: int) -> None:
    while len(table.refresh().metadata.snapshots) < at_least:
        time.sleep(0.1)


# --- what there is --------------------------------------------------------------------------------------------------


def test_flink_makes_lists_and_drops_databases_and_tables(here: Database) -> None:
    other = f"{here.name}_more"
    sql, rows = here.batch.sql, here.batch.rows
    sql(
        f"CREATE DATABASE {other} COMMENT 'of Flink' WITH ('owner' = 'etl')",
        "CREATE TABLE t (id BIGINT NOT NULL COMMENT 'its number', word STRING, `day` DATE) PARTITIONED BY (`day`) "
        "WITH ('write.format.default' = 'avro')",
        "CREATE TABLE alike LIKE t",
        "CREATE TABLE chosen AS SELECT 1 AS id, 'one' AS word",
        f"CREATE TABLE {other}.t (id BIGINT)",
    )
    assert [other] in rows("SHOW DATABASES")
    assert here.others.load_namespace_properties(other)["owner"] == "etl"
    assert sorted(rows("SHOW TABLES")) == [["alike"], ["chosen"], ["t"]]
    for name in ("t", "alike"):
        table = here.table(name)
        assert [(field.name, field.required) for field in table.schema().fields] == [
            ("id", True), ("word", False), ("day", False),
        ]  # fmt: skip
        assert [(field.name, str(field.transform)) for field in table.spec().fields] == [("day", "identity")]
        assert table.properties["write.format.default"] == "avro"
    assert here.table().schema().find_field("id").doc == "its number"
    assert here.table("chosen").scan().to_arrow().to_pylist() == [{"id": 1, "word": "one"}]
    with pytest.raises(Refused, match="DatabaseNotEmptyException"):
        sql(f"DROP DATABASE {other}")
    with pytest.raises(Refused, match="already exist"):
        sql("CREATE TABLE t (id BIGINT)")
    sql("DROP TABLE alike", "ALTER TABLE chosen RENAME TO taken", f"DROP TABLE {other}.t", f"DROP DATABASE {other}")
    assert here.tables() == ["t", "taken"]
    assert rows("SELECT * FROM taken") == [[1, "one"]]
    with pytest.raises(NoSuchNamespaceError):
        here.others.load_namespace_properties(other)


def test_a_base_namespace_makes_its_children_the_databases(here: Database) -> None:
    below = here.flink.session()
    below.sql(
        catalog(here.server.url, **{"base-namespace": here.name}),
        "CREATE DATABASE lake.eu",
        "CREATE TABLE lake.eu.t (id BIGINT)",
        "INSERT INTO lake.eu.t VALUES (1)",
        "CREATE DATABASE lake.`eu.west`",
        "CREATE TABLE lake.`eu.west`.t (id BIGINT)",
    )
    assert sorted(below.rows("SHOW DATABASES IN lake")) == [["eu"], ["eu.west"]]
    assert ids(here.others.load_table((here.name, "eu", "t"))) == [1]
    # Flink knows of it, but what reads and writes takes the dot for a step down.
    assert below.rows("SHOW TABLES IN lake.`eu.west`") == [["t"]]
    with pytest.raises(Refused, match=rf"Table does not exist: {here.name}\.eu\.west\.t"):
        below.sql("SELECT * FROM lake.`eu.west`.t")


def test_rows_stay_what_they_were_when_the_schema_changes(here: Database) -> None:
    here.batch.sql(
        "CREATE TABLE t (id INT, word STRING, gone STRING)",
        "INSERT INTO t VALUES (1, 'one', 'x')",
        "ALTER TABLE t SET ('read.split.target-size' = '1048576')",
        "ALTER TABLE t ADD (more STRING COMMENT 'came later')",
        "ALTER TABLE t RENAME word TO name",
        "ALTER TABLE t MODIFY id BIGINT",
        "ALTER TABLE t DROP gone",
        "INSERT INTO t VALUES (4294967296, 'many', 'm')",
    )
    assert here.batch.rows("SELECT * FROM t ORDER BY id") == [[1, "one", None], [4294967296, "many", "m"]]
    assert here.table().properties["read.split.target-size"] == "1048576"
    here.batch.sql("ALTER TABLE t RESET ('read.split.target-size')")
    assert "read.split.target-size" not in here.table().properties
    schema = here.table().schema()
    assert [(field.field_id, field.name) for field in schema.fields] == [(1, "id"), (2, "name"), (4, "more")]
    assert schema.find_field("more").doc == "came later"


def test_flink_itself_refuses_what_iceberg_has_not_for_it(here: Database) -> None:
    here.batch.sql("CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1)")
    for statement in (
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET id = 2",
        "TRUNCATE TABLE t",
        "CREATE VIEW v AS SELECT 1",
    ):
        with pytest.raises(Refused):
            here.batch.sql(statement)
    assert (ids(here.table()), here.tables()) == ([1], ["t"])


# --- batch ----------------------------------------------------------------------------------------------------------


def test_an_overwrite_replaces_the_partitions_that_it_writes(here: Database) -> None:
    here.batch.sql(
        "CREATE TABLE t (id BIGINT, `day` DATE) PARTITIONED BY (`day`)",
        "INSERT INTO t VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-02'), (3, DATE '2026-01-03')",
        "INSERT OVERWRITE t VALUES (10, DATE '2026-01-01')",
        "INSERT OVERWRITE t PARTITION (`day` = '2026-01-03') SELECT CAST(30 AS BIGINT)",
    )
    expected = [[2, "2026-01-02"], [10, "2026-01-01"], [30, "2026-01-03"]]
    assert here.batch.rows("SELECT * FROM t ORDER BY id") == expected
    assert ids(here.table()) == [2, 10, 30]


def test_flink_reads_what_the_table_was(here: Database) -> None:
    here.batch.sql("CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1)")
    first = here.table().metadata.snapshots[0]
    with here.table().manage_snapshots() as manage:
        manage.create_tag(first.snapshot_id, "first").create_branch(first.snapshot_id, "side")
    here.batch.sql("INSERT INTO t VALUES (2)", "INSERT INTO t /*+ OPTIONS('branch' = 'side') */ VALUES (3)")

    def read(option: str) -> list[int]:
        return sorted(id_ for (id_,) in here.batch.rows(f"SELECT id FROM t /*+ OPTIONS({option}) */"))

    for option in (f"'snapshot-id' = '{first.snapshot_id}'", f"'as-of-timestamp' = '{first.timestamp_ms}'"):
        assert read(option) == [1]
    assert read("'tag' = 'first'") == [1]
    assert read("'branch' = 'side'") == [1, 3]
    assert here.batch.rows("SELECT count(*) FROM `t$snapshots`") == [[3]]
    assert ids(here.table()) == [1, 2]


def test_upserts_write_equality_deletes_that_other_engines_read(here: Database) -> None:
    here.batch.sql(
        "CREATE TABLE t (id BIGINT, word STRING, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('format-version' = '2', 'write.upsert.enabled' = 'true')",
        "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO t VALUES (2, 'TWO'), (3, 'three')",
    )
    table = here.table()
    assert table.schema().identifier_field_names() == {"id"}
    summary = table.metadata.snapshots[-1].summary
    assert summary is not None
    assert summary["added-equality-deletes"] == "2"
    expected = [[1, "one"], [2, "TWO"], [3, "three"]]
    assert here.batch.rows("SELECT * FROM t ORDER BY id") == expected
    with pytest.raises(ValueError, match="does not yet support equality deletes"):
        table.scan().to_arrow()
    attach = f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{here.server.url}/iceberg', AUTHORIZATION_TYPE 'none')"
    assert duckdb(attach, f"SELECT * FROM lake.{here.name}.t ORDER BY id")[1] == expected


# --- streaming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sink", ["false", "true"], ids=["sink", "sink-v2"])
def test_a_stream_goes_on_where_it_has_stopped(here: Database, tmp_path: Path, sink: str) -> None:
    here.batch.sql("CREATE TABLE t (id BIGINT)")
    table = here.table()
    insert = "INSERT INTO t SELECT id FROM numbers"
    options = {**CHECKPOINTS, "table.exec.iceberg.use-v2-sink": sink}
    first = here.session(STREAMING, options)
    first.sql(numbers(10_000, 50))
    job = first.start(insert)
    wait_for_snapshots(table, 2)
    savepoint = job.stop(tmp_path)
    so_far = ids(table)
    assert so_far == list(range(1, len(so_far) + 1))
    second = here.session(STREAMING, {**options, "execution.state-recovery.path": savepoint})
    second.sql(numbers(10_000, 50_000))
    second.start(insert).wait()
    assert ids(table) == list(range(1, 10_001))


def test_a_streaming_read_sees_what_others_commit(here: Database) -> None:
    here.batch.sql("CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1), (2)")
    watching = here.session(STREAMING)
    with watching.reading("SELECT * FROM t /*+ OPTIONS('streaming' = 'true', 'monitor-interval' = '1s') */") as rows:
        assert sorted([next(rows), next(rows)]) == [[1], [2]]
        for id_ in (3, 4):
            here.table().append(pa.table({"id": [id_]}))
            assert next(rows) == [id_]


class Overtaken:
    """Between Flink and the server: before each of its first commits another writer's arrives, and the answer to the
    first one that succeeds is lost."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.path = f"/iceberg/v1/lake/namespaces/{table.name()[0]}/tables/{table.name()[1]}"
        self.statuses: list[int] = []
        self.appended = 0
        self.lost = False

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        if method != "POST" or path != self.path:
            return forward()
        if len(self.statuses) < 2:
            self.appended += 1
            self.table.refresh().append(pa.table({"id": [-self.appended]}))
        answer = forward()
        self.statuses.append(answer.status_code)
        if answer.is_success and not self.lost:
            self.lost = True
            return None
        return answer


@pytest.mark.parametrize("rebase", ["false", "true"])
def test_a_stream_that_is_overtaken_and_not_answered_commits_every_row_once(
    flink: Flink, server: ServerProcess, rebase: str
) -> None:
    here = Database(flink, server)
    here.batch.sql(f"CREATE TABLE t (id BIGINT) WITH ('firn.append.rebase' = '{rebase}')")
    network = Overtaken(here.table())
    with meddling_proxy(server.url, network) as proxy:
        streaming = here.session(STREAMING, {**CHECKPOINTS, **GOES_ON}, url=proxy.url)
        streaming.sql(numbers(100, 50))
        streaming.start("INSERT INTO t SELECT id FROM numbers").wait()
    # Whoever looks for its checkpoint after a refusal is refused, whatever the table says of appends.
    assert network.statuses[:2] == [409, 409]
    assert network.lost
    assert ids(here.table()) == sorted([*range(-network.appended, 0), *range(1, 101)])
    for snapshot in here.table().metadata.snapshots:
        assert snapshot.summary is not None
        assert "firn.rebased-from" not in snapshot.summary.additional_properties


# --- Firn's own -----------------------------------------------------------------------------------------------------


def test_flink_appends_changes_to_a_keyed_table(here: Database) -> None:
    here.batch.sql("CREATE TABLE t (id BIGINT NOT NULL, word STRING) WITH ('firn.primary-key' = 'id')")
    stores = here.flink.session()
    stores.sql(
        catalog(here.server.url, **{"base-namespace": here.name}),
        "USE CATALOG lake",
        "USE t",
        "INSERT INTO base VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO change (id, word, _op) VALUES (2, 'TWO', 'U'), (3, 'three', 'I')",
        "INSERT INTO change (id, _op) VALUES (1, 'D')",
    )
    assert sorted(stores.rows("SELECT id, word, _op FROM change")) == [
        [1, None, "D"],
        [2, "TWO", "U"],
        [3, "three", "I"],
    ]
    assert sorted(here.batch.rows("SELECT id, word FROM t")) == [[2, "TWO"], [3, "three"]]
    with pytest.raises(Refused, match="it takes appended changes only"):
        stores.sql("INSERT OVERWRITE change (id, _op) VALUES (9, 'I')")
    with pytest.raises(Refused, match="merge first"):
        stores.sql("INSERT OVERWRITE base VALUES (9, 'nine')")
    with pytest.raises(Refused, match="cannot be dropped"):
        stores.sql("DROP TABLE base")


def test_upserts_into_base_are_refused_and_leave_the_table_readable(here: Database) -> None:
    """Flink wrote equality deletes there while nothing was pending, and client.scan failed from then on."""
    here.batch.sql(
        "CREATE TABLE t (id BIGINT NOT NULL, word STRING, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('firn.primary-key' = 'id', 'format-version' = '2')"
    )
    stores = here.flink.session()
    stores.sql(
        catalog(here.server.url, **{"base-namespace": here.name}),
        "USE CATALOG lake",
        "USE t",
        "INSERT INTO base VALUES (1, 'one'), (2, 'two')",
    )
    with pytest.raises(Refused, match="equality deletes are not allowed on the base store"):
        stores.sql("INSERT INTO base /*+ OPTIONS('upsert-enabled'='true') */ VALUES (2, 'TWO')")
    with firn.connect(here.server.url) as client:
        rows = client.scan(f"{here.name}.t").to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 1, "word": "one"}, {"id": 2, "word": "two"}]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("guarded") / "data", FIRN_ACCESS__ENABLED="true") as server:
        yield server


def test_flink_is_told_what_its_service_may_not_do(flink: Flink, guarded: ServerProcess) -> None:
    admin_session = flink.session()
    assert guarded.first_token is not None
    admin_session.sql(
        catalog(guarded.url, token=guarded.first_token),
        "CREATE DATABASE lake.seen",
        "CREATE TABLE lake.seen.t (id BIGINT)",
        "INSERT INTO lake.seen.t VALUES (1)",
        "CREATE DATABASE lake.hidden",
        "CREATE TABLE lake.hidden.t (id BIGINT)",
    )
    with firn.connect(guarded.url, token=guarded.first_token) as admin:
        admin.access.create_role("reader")
        admin.access.grant("reader", ["list", "read"], catalog="lake", namespace=["seen"])
        secret = admin.access.create_service("report")["client_secret"]
        admin.access.assign("reader", "report")
    session = flink.session()
    oauth = {"oauth2-server-uri": f"{guarded.url}/iceberg/v1/oauth/tokens"}
    session.sql(catalog(guarded.url, credential=f"report:{secret}", **oauth))
    assert session.rows("SHOW DATABASES IN lake") == [["seen"]]
    assert session.rows("SELECT * FROM lake.seen.t") == [[1]]
    with pytest.raises(Refused, match="Forbidden"):
        session.sql("INSERT INTO lake.seen.t VALUES (2)")
    with pytest.raises(Refused, match="Forbidden"):
        session.sql("DROP TABLE lake.seen.t")
    with pytest.raises(Refused, match="Object 'hidden' not found"):
        session.sql("SELECT * FROM lake.hidden.t")
    assert admin_session.rows("SELECT * FROM lake.seen.t") == [[1]]
    with pytest.raises(Refused, match="NotAuthorizedException"):
        flink.session().sql(catalog(guarded.url, token="firn_none"), "SHOW DATABASES IN lake")
