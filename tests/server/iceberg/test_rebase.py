"""PyIceberg writers who do not try again, over a real socket, on tables that rebase appends and on others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException

from tests.spark_fixtures import ServerProcess, server_process

COLUMNS = pa.schema([pa.field("id", pa.int64())])
WRITERS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("server") / "data") as running:
        catalog_of(running).create_namespace("db")
        yield running


def catalog_of(server: ServerProcess) -> RestCatalog:
    return RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")


def a_table(server: ServerProcess, name: str, version: int, *, rebase: bool) -> str:
    properties = {
        "format-version": str(version),
        "firn.append.rebase": str(rebase).lower(),
        "commit.retry.num-retries": "0",
    }
    catalog_of(server).create_table(f"db.{name}", COLUMNS, properties=properties).append(rows(0))
    return f"db.{name}"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=COLUMNS)


@pytest.mark.parametrize("version", [1, 2])
def test_with_the_option_nobody_has_to_try_again(server: ServerProcess, version: int) -> None:
    name = a_table(server, f"on{version}", version, rebase=True)
    tables = [catalog_of(server).load_table(name) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda at: tables[at].append(rows(at + 1, at + 101)), range(WRITERS)))
    table = catalog_of(server).load_table(name)
    expected = [0, *range(1, WRITERS + 1), *range(101, WRITERS + 101)]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
    assert table.inspect.files().num_rows == WRITERS + 1
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    summary = head.summary
    assert (summary["total-records"], summary["total-data-files"]) == (str(len(expected)), str(WRITERS + 1))


@pytest.mark.parametrize("version", [1, 2])
def test_without_it_all_but_the_first_are_refused(server: ServerProcess, version: int) -> None:
    name = a_table(server, f"off{version}", version, rebase=False)
    tables = [catalog_of(server).load_table(name) for _ in range(2)]
    tables[0].append(rows(1))
    with pytest.raises(CommitFailedException, match="branch main has changed"):
        tables[1].append(rows(2))
    assert sorted(catalog_of(server).load_table(name).scan().to_arrow()["id"].to_pylist()) == [0, 1]


def test_what_pyiceberg_does_next_stands_on_the_rebased_snapshot(server: ServerProcess) -> None:
    name = a_table(server, "next", 2, rebase=True)
    mine, theirs = catalog_of(server).load_table(name), catalog_of(server).load_table(name)
    theirs.append(rows(1))
    mine.append(rows(2))
    mine.delete("id = 1")
    mine.append(rows(3))
    assert sorted(catalog_of(server).load_table(name).scan().to_arrow()["id"].to_pylist()) == [0, 2, 3]


def test_an_overwrite_is_refused_with_the_option_too(server: ServerProcess) -> None:
    name = a_table(server, "overwritten", 2, rebase=True)
    mine, theirs = catalog_of(server).load_table(name), catalog_of(server).load_table(name)
    theirs.append(rows(1))
    with pytest.raises(CommitFailedException):
        mine.overwrite(rows(2))
    assert sorted(catalog_of(server).load_table(name).scan().to_arrow()["id"].to_pylist()) == [0, 1]
