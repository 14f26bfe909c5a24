"""What a session is told of a server's catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import firn.spark
from firn.errors import Invalid, NotFound, Unavailable
from firn.spark import hive, statements
from firn.spark.errors import NotPublished
from firn.spark.sessions import catalog_conf, client_of, configure
from firn.spark.write import Written


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


def test_a_session_s_catalog_says_which_server_and_which_table_it_means() -> None:
    conf = catalog_conf(Connection("http://h:1", "secret"), "legacy", name="old")
    client, name = client_of(session_with(conf), "old.`d.b`.orders")
    with client:
        assert (client.url, client.token, name) == ("http://h:1", "secret", "legacy.`d.b`.orders")
        assert str(client.name(name)) == name
    for table in ("other.db.orders", "old.orders"):
        with pytest.raises(Invalid, match="is not in a Firn catalog"):
            client_of(session_with(conf), table)


def session_with(conf: dict[str, str]) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get))


def test_what_was_written_and_not_published_is_said_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_with(catalog_conf("http://127.0.0.1:1", "lake"))
    monkeypatch.setattr(hive, "find_linked_table", lambda *_: SimpleNamespace(publish=fails))
    with pytest.raises(NotPublished, match=r"batch 'b' of writer 'w' is in the table\. no optimizer \(start one\)"):
        hive.publish_written(session, Written("lake.db.t", "w", "b"))
    monkeypatch.setattr(hive, "find_linked_table", lambda *_: None)
    with pytest.raises(Invalid, match="is not linked to a Hive table"):
        hive.sync_before_write(session, "lake.db.t", "none", publish=True)


def test_of_what_a_statement_names_the_tables_over_hive_are_brought_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_with(catalog_conf("http://127.0.0.1:1", "lake"))
    sync_from_hive: list[tuple[str, str]] = []

    def link(_: object, name: str) -> Any:
        if name.endswith("missing"):
            raise NotFound("no such table")
        over = SimpleNamespace(sync=lambda scope: sync_from_hive.append((name, scope)))
        return over if name.endswith("hive") else None

    named = [("lake", "db", "hive"), ("lake", "db", "plain"), ("lake", "db", "missing"), ("theirs", "db", "hive")]
    monkeypatch.setattr(statements, "find_tables", lambda *_: named)
    monkeypatch.setattr(statements, "find_linked_table", link)
    statements.sync_before_statement(session, "SELECT", "none")
    assert sync_from_hive == []
    statements.sync_before_statement(session, "SELECT", "data")
    assert sync_from_hive == [("lake.db.hive", "data")]


def fails() -> None:
    raise Unavailable("no optimizer", hint="start one")
