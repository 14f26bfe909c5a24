"""What a session is told of a server's catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import firn.spark
from firn.cli.sql import _run as run_statement
from firn.cli.told import Told as CliContext
from firn.errors import FirnError, Invalid, NotFound, Unavailable
from firn.linked import AutoSync
from firn.spark import hive, statements
from firn.spark.errors import NotPublished
from firn.spark.sessions import _catalog_names, catalog_conf, client_of, configure
from firn.spark.statements import tables_of
from firn.spark.write import Written
from tests.spark_fixtures import RunningServer, shared_spark


@dataclass(frozen=True)
class Connection:
    url: str
    token: str | None = None


class Builder:
    """Takes settings as Spark's own builder does."""

    def __init__(self) -> None:
        self.settings: dict[str, object] = {}

    def config(self, *, map: dict[str, object]) -> Builder:
        self.settings |= map
        return self


def test_a_catalog_is_known_by_its_name_or_another() -> None:
    conf = catalog_conf(Connection("http://h:1/", "secret"), "lake", name="job", headers={"X-Firn-Lease": "j.1.t"})
    assert conf["spark.sql.catalog.job.uri"] == "http://h:1/iceberg"
    assert conf["spark.sql.catalog.job.warehouse"] == "lake"
    assert conf["spark.sql.catalog.job.token"] == "secret"
    assert conf["spark.sql.catalog.job.header.X-Firn-Lease"] == "j.1.t"
    assert "spark.sql.catalog.lake.token" not in catalog_conf("http://h:1", "lake")


def test_a_builder_gets_jars_extensions_and_every_catalog() -> None:
    builder = Builder()
    configure(builder, "http://h:1", catalogs=["a", "b"])  # type: ignore[arg-type]  # as much of one as is needed
    assert {"spark.sql.catalog.a.uri", "spark.sql.catalog.b.uri", "spark.sql.extensions"} <= builder.settings.keys()
    assert {"spark.jars", "spark.jars.packages"} & builder.settings.keys()


def test_every_offered_name_is_there() -> None:
    assert [name for name in firn.spark.__all__ if not callable(getattr(firn.spark, name))] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(firn.spark, "nothing")  # noqa: B009 -- mypy knows that it is not there


@pytest.mark.spark
def test_the_server_is_asked_which_catalogs_it_has(server: RunningServer) -> None:
    assert _catalog_names(server.url) == ["lake"]


@pytest.mark.spark
def test_the_tables_that_a_statement_names_are_found_wherever_it_names_them(server: RunningServer) -> None:
    spark = server.spark
    found = tables_of(
        spark,
        "INSERT INTO lake.db.target WITH one AS (SELECT * FROM lake.db.`in a with`) "
        "SELECT * FROM one JOIN lake.db.right "
        "WHERE id IN (SELECT id FROM lake.`d.b`.below) AND n = (SELECT max(n) FROM lake.db.scalar)",
    )
    here = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
    named = ("target", "in a with", "right", "scalar")
    assert {*found} == {*(("lake", "db", name) for name in named), ("lake", "d.b", "below"), (*here, "one")}
    merge = "MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert tables_of(spark, merge) == [("lake", "db", "t"), ("lake", "db", "s")]
    assert tables_of(spark, "DELETE FROM lake.db.t WHERE id = 1") == [("lake", "db", "t")]
    assert tables_of(spark, "SELECT 1") == tables_of(spark, "SELEKT") == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lake.db.orders VALUES (1, 'a')",
        "UPDATE lake.db.orders SET v = 'x' WHERE id = 1",
        "DELETE FROM lake.db.orders WHERE id = 1",
        "MERGE INTO lake.db.orders t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_sql_that_writes_to_a_keyed_table_said_table_or_view_not_found(server: RunningServer, statement: str) -> None:
    server.spark.sql(
        "CREATE TABLE IF NOT EXISTS lake.db.orders (id BIGINT, v STRING) USING iceberg "
        "TBLPROPERTIES ('firn.primary-key' = 'id')"
    )
    with pytest.raises(Invalid, match=r"lake\.db\.orders is a keyed table, which SQL cannot change") as refused:
        run_statement(CliContext(server=server.url), server.spark, statement, 10, AutoSync.NONE)
    assert "lake.db.orders.change with _op" in (refused.value.hint or "")


@pytest.mark.spark
def test_other_sql_that_fails_keeps_the_words_of_spark(server: RunningServer) -> None:
    for statement in ("INSERT INTO lake.db.nowhere VALUES (1)", "SELECT * FROM lake.db.nowhere"):
        with pytest.raises(FirnError, match="TABLE_OR_VIEW_NOT_FOUND"):
            run_statement(CliContext(server=server.url), server.spark, statement, 10, AutoSync.NONE)


def test_a_session_s_catalog_says_which_server_and_which_table_it_means() -> None:
    conf = catalog_conf(Connection("http://h:1", "secret"), "legacy", name="old")
    client, name = client_of(session_with(conf), "old.`d.b`.orders")
    with client:
        assert (client.url, client.token, name) == ("http://h:1", "secret", "legacy.`d.b`.orders")
        assert str(client.name(name)) == name
    for table in ("other.db.orders", "old.orders"):
        with pytest.raises(Invalid, match="in no catalog of a Firn server"):
            client_of(session_with(conf), table)


def session_with(conf: dict[str, str]) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get))


def test_what_was_written_and_not_published_is_said_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_with(catalog_conf("http://127.0.0.1:1", "lake"))
    monkeypatch.setattr(hive, "linked", lambda *_: SimpleNamespace(publish=fails))
    with pytest.raises(NotPublished, match=r"batch 'b' of writer 'w' is in the table\. no optimizer \(start one\)"):
        hive.published(session, Written("lake.db.t", "w", "b"))
    monkeypatch.setattr(hive, "linked", lambda *_: None)
    with pytest.raises(Invalid, match="over no Hive table"):
        hive.before_write(session, "lake.db.t", "none", publish=True)


def test_of_what_a_statement_names_the_tables_over_hive_are_brought_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_with(catalog_conf("http://127.0.0.1:1", "lake"))
    followed: list[tuple[str, str]] = []

    def link(_: object, name: str) -> Any:
        if name.endswith("missing"):
            raise NotFound("no such table")
        over = SimpleNamespace(follow=lambda what: followed.append((name, what)))
        return over if name.endswith("hive") else None

    named = [("lake", "db", "hive"), ("lake", "db", "plain"), ("lake", "db", "missing"), ("theirs", "db", "hive")]
    monkeypatch.setattr(statements, "tables_of", lambda *_: named)
    monkeypatch.setattr(statements, "linked", link)
    statements.before_statement(session, "SELECT", "none")
    assert followed == []
    statements.before_statement(session, "SELECT", "data")
    assert followed == [("lake.db.hive", "data")]


def fails() -> None:
    raise Unavailable("no optimizer", hint="start one")


@pytest.mark.spark
def test_sql_runs_on_the_session_it_is_given() -> None:
    assert firn.spark.sql("SELECT 1 AS one", shared_spark()).collect()[0].one == 1
