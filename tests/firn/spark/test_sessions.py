"""What a session is told of a server's catalogs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import firn.spark
from firn.spark.sessions import _catalog_names, catalog_conf, configure
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
def test_sql_runs_on_the_session_it_is_given() -> None:
    assert firn.spark.sql("SELECT 1 AS one", shared_spark()).collect()[0].one == 1
