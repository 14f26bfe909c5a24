"""Trino on a Firn catalog as its only one: what its documentation says of Iceberg, with the answers looked at."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog

import firn
from tests.integration.engines.trino import LOCAL_FILES, Refused, Trino
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.timeout(600)
_numbers = count(1)
_known: set[str] = set()


@dataclass(frozen=True)
class Schema:
    """A schema of the test's own; stands for `catalog.schema` in statements."""

    trino: Trino
    server: ServerProcess
    catalog: str
    name: str

    def __str__(self) -> str:
        return f'{self.catalog}."{self.name}"'

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.trino.rows(statement)

    def rows(self, statement: str) -> list[list[Any]]:
        return self.trino.rows(statement)

    def values(self, statement: str) -> list[Any]:
        return self.trino.values(statement)

    def pyiceberg(self) -> RestCatalog:
        catalog = load_catalog("lake", type="rest", uri=f"{self.server.url}/iceberg", warehouse="lake")
        assert isinstance(catalog, RestCatalog)
        return catalog


def connection(server: ServerProcess, **more: str) -> dict[str, str]:
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": f"{server.url}/iceberg",
        "iceberg.rest-catalog.warehouse": "lake",
        "iceberg.rest-catalog.nested-namespace-enabled": "true",
        **LOCAL_FILES,
        **{f"iceberg.rest-catalog.{key}": value for key, value in more.items()},
    }


def a_schema(trino: Trino, server: ServerProcess, catalog: str, **more: str) -> Schema:
    if catalog not in _known:
        trino.add_catalog(catalog, connection(server, **more))
        _known.add(catalog)
    schema = Schema(trino, server, catalog, f"trino{next(_numbers)}")
    schema.sql(f"CREATE SCHEMA {schema}")
    return schema


@pytest.fixture
def schema(trino: Trino, on_sqlite: ServerProcess) -> Schema:
    return a_schema(trino, on_sqlite, "sqlite")


@pytest.fixture
def on_each(trino: Trino, server: ServerProcess, database: str) -> Schema:
    return a_schema(trino, server, database)


def test_schemas_nest_and_are_listed_described_and_dropped(schema: Schema) -> None:
    inner = f'{schema.catalog}."{schema.name}.eu.west"'
    schema.sql(f'CREATE SCHEMA {schema.catalog}."{schema.name}.eu"', f"CREATE SCHEMA {inner}")
    assert schema.pyiceberg().namespace_exists((schema.name, "eu", "west"))
    listed = schema.values(f"SHOW SCHEMAS FROM {schema.catalog} LIKE '{schema.name}%'")
    assert listed == [schema.name, f"{schema.name}.eu", f"{schema.name}.eu.west"]
    schema.sql(f"CREATE TABLE {inner}.t AS SELECT 1 AS id")
    with pytest.raises(Refused, match="SCHEMA_NOT_EMPTY"):
        schema.sql(f"DROP SCHEMA {inner}")
    (shown,) = schema.values(f"SHOW CREATE SCHEMA {inner}")
    assert f"{schema.name}/eu/west" in shown
    schema.sql(f"DROP TABLE {inner}.t", f"DROP SCHEMA {inner}")
    with pytest.raises(Refused, match="NOT_FOUND: Schema"):
        schema.sql(f"CREATE TABLE {inner}.t (id BIGINT)")


def test_rows_are_inserted_updated_merged_and_deleted(on_each: Schema) -> None:
    t, copy = f"{on_each}.t", f"{on_each}.copy"
    on_each.sql(
        f"CREATE TABLE {t} (id BIGINT NOT NULL, amount DECIMAL(10,2), day DATE) "
        "WITH (partitioning = ARRAY['month(day)'])",
        f"INSERT INTO {t} VALUES (1, 10.00, DATE '2026-11-20'), (2, 5, NULL), (3, 1, DATE '2026-12-01')",
        f"UPDATE {t} SET amount = amount * 2 WHERE id = 2",
        f"DELETE FROM {t} WHERE day = DATE '2026-12-01'",
        f"MERGE INTO {t} USING (VALUES (1, 7), (4, 8)) s(id, amount) ON {t}.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = s.amount "
        "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, s.amount)",
    )
    expected = [[1, "7.00", "2026-11-20"], [2, "10.00", None], [4, "8.00", None]]
    assert on_each.rows(f"SELECT * FROM {t} ORDER BY id") == expected
    on_each.sql(
        f"CREATE TABLE {copy} AS SELECT * FROM {t} WHERE id > 1", f"CREATE OR REPLACE TABLE {t} AS TABLE {copy}"
    )
    assert on_each.rows(f"SELECT * FROM {t} ORDER BY id") == expected[1:]
    with pytest.raises(Refused, match="TABLE_ALREADY_EXISTS"):
        on_each.sql(f"CREATE TABLE {copy} (id BIGINT)")
    on_each.sql(f"TRUNCATE TABLE {copy}")
    assert on_each.values(f"SELECT count(*) FROM {copy}") == [0]


def test_writers_side_by_side_all_get_in(on_each: Schema) -> None:
    on_each.sql(f"CREATE TABLE {on_each}.t (id BIGINT)")
    with ThreadPoolExecutor(3) as writers:
        list(writers.map(lambda n: on_each.sql(f"INSERT INTO {on_each}.t VALUES {n}"), range(6)))
    assert on_each.values(f"SELECT id FROM {on_each}.t ORDER BY id") == list(range(6))


def test_columns_and_partitions_evolve(schema: Schema) -> None:
    t = f"{schema}.t"
    schema.sql(
        f"CREATE TABLE {t} (id INTEGER, day DATE, price REAL) "
        "WITH (partitioning = ARRAY['day'], sorted_by = ARRAY['id'])",
        f"INSERT INTO {t} VALUES (1, DATE '2026-11-20', 1.5)",
        f"ALTER TABLE {t} ADD COLUMN note VARCHAR",
        f"ALTER TABLE {t} RENAME COLUMN price TO cost",
        f"ALTER TABLE {t} ALTER COLUMN id SET DATA TYPE BIGINT",
        f"ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['bucket(id, 4)']",
        f"ALTER TABLE {t} DROP COLUMN cost",
        f"INSERT INTO {t} VALUES (5000000000, DATE '2026-11-21', 'new')",
        f"COMMENT ON TABLE {t} IS 'sold'",
        f"COMMENT ON COLUMN {t}.note IS 'of the clerk'",
    )
    assert schema.rows(f"SELECT * FROM {t} ORDER BY id") == [
        [1, "2026-11-20", None],
        [5000000000, "2026-11-21", "new"],
    ]
    assert schema.rows(f"SHOW COLUMNS FROM {t}") == [
        ["id", "bigint", "", ""],
        ["day", "date", "", ""],
        ["note", "varchar", "", "of the clerk"],
    ]
    (shown,) = schema.values(f"SHOW CREATE TABLE {t}")
    assert "COMMENT 'sold'" in shown
    assert "partitioning = ARRAY['bucket(id, 4)']" in shown
    assert len(schema.rows(f'SELECT * FROM {schema}."t$partitions"')) == 2


def test_the_past_is_read_by_snapshot_time_branch_and_tag(schema: Schema) -> None:
    t = f"{schema}.t"
    schema.sql(f"CREATE TABLE {t} AS SELECT 1 AS id", f"INSERT INTO {t} VALUES 2")
    rows = schema.rows(f'SELECT snapshot_id, operation, parent_id FROM {schema}."t$snapshots" ORDER BY committed_at')
    (first, *_), (second, operation, parent) = rows
    assert (operation, parent) == ("append", first)
    assert schema.values(f"SELECT id FROM {t} FOR VERSION AS OF {first}") == [1]
    (then,) = schema.values(f'SELECT made_current_at FROM {schema}."t$history" WHERE snapshot_id = {first}')
    stamp = then.removesuffix(" UTC")
    assert schema.values(f"SELECT id FROM {t} FOR TIMESTAMP AS OF TIMESTAMP '{stamp} UTC'") == [1]
    table = schema.pyiceberg().load_table((schema.name, "t"))
    table.manage_snapshots().create_tag(first, "first-load").create_branch(second, "audit").commit()
    assert schema.values(f"SELECT id FROM {t} FOR VERSION AS OF 'first-load'") == [1]
    assert schema.values(f'SELECT name FROM {schema}."t$refs" ORDER BY name') == ["audit", "first-load", "main"]
    assert schema.values(f'SELECT sum(record_count) FROM {schema}."t$files"') == [2]
    assert len(schema.rows(f'SELECT * FROM {schema}."t$manifests"')) == 2
    schema.sql(f"ALTER TABLE {t} EXECUTE rollback_to_snapshot({first})")
    assert schema.values(f"SELECT id FROM {t}") == [1]


def test_views_are_created_replaced_renamed_listed_and_dropped(on_each: Schema) -> None:
    view = f"{on_each}.big"
    on_each.sql(
        f"CREATE TABLE {on_each}.t AS SELECT * FROM (VALUES (1, 10), (2, 20)) v(id, amount)",
        f"CREATE VIEW {view} COMMENT 'large ones' AS SELECT id FROM {on_each}.t WHERE amount > 15",
    )
    assert on_each.values(f"SELECT id FROM {view}") == [2]
    on_each.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT id, amount FROM {on_each}.t WHERE amount > 5")
    assert on_each.rows(f"SELECT * FROM {view} ORDER BY id") == [[1, 10], [2, 20]]
    listed = f"SELECT table_name, table_type FROM {on_each.catalog}.information_schema.tables WHERE table_schema ="
    assert sorted(on_each.rows(f"{listed} '{on_each.name}'")) == [["big", "VIEW"], ["t", "BASE TABLE"]]
    with pytest.raises(Refused, match="View with same name already exists"):
        on_each.sql(f"CREATE TABLE {view} (id BIGINT)")
    on_each.sql(f"ALTER VIEW {view} RENAME TO {on_each}.all_of_them")
    assert on_each.values(f"SHOW TABLES FROM {on_each}") == ["all_of_them", "t"]
    on_each.sql(f"DROP VIEW {on_each}.all_of_them")
    assert on_each.values(f"SHOW TABLES FROM {on_each}") == ["t"]


def test_a_table_is_renamed_across_schemas_dropped_and_created_anew_elsewhere(schema: Schema) -> None:
    other = f'{schema.catalog}."{schema.name}.archive"'
    schema.sql(
        f"CREATE SCHEMA {other}",
        f"CREATE TABLE {schema}.t AS SELECT 1 AS id",
        f"ALTER TABLE {schema}.t RENAME TO {other}.kept",
    )
    assert schema.values(f"SELECT id FROM {other}.kept") == [1]
    first = schema.pyiceberg().load_table((schema.name, "archive", "kept")).location()
    schema.sql(f"DROP TABLE {other}.kept", f"CREATE TABLE {other}.kept (id BIGINT)")
    assert schema.values(f"SELECT id FROM {other}.kept") == []
    second = schema.pyiceberg().load_table((schema.name, "archive", "kept")).location()
    assert first != second
    assert Path(urlsplit(second).path).is_dir()


def test_a_table_belongs_to_trino_and_pyiceberg_alike(schema: Schema) -> None:
    catalog = schema.pyiceberg()
    table = catalog.create_table((schema.name, "t"), pa.schema([("id", pa.int64()), ("word", pa.string())]))
    table.append(pa.table({"id": [1, 2, 3], "word": ["one", "two", "three"]}))
    schema.sql(
        f"UPDATE {schema}.t SET word = 'TWO' WHERE id = 2",
        f"ALTER TABLE {schema}.t ADD COLUMN at TIMESTAMP(6) WITH TIME ZONE",
        f"INSERT INTO {schema}.t VALUES (4, 'four', TIMESTAMP '2026-11-20 12:00:00 UTC')",
    )
    answers = {
        row["id"]: (row["word"], row["at"] and row["at"].isoformat())
        for row in table.refresh().scan().to_arrow().to_pylist()
    }
    assert answers == {
        1: ("one", None),
        2: ("TWO", None),
        3: ("three", None),
        4: ("four", "2026-11-20T12:00:00+00:00"),
    }
    table.delete("id = 1")
    assert schema.values(f"SELECT id FROM {schema}.t ORDER BY id") == [2, 3, 4]


def test_a_keyed_table_is_read_merged_and_its_stores_are_appended_to(schema: Schema) -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "word", "type": "string"}]
    stores = f'{schema.catalog}."{schema.name}.stock"'
    with firn.connect(schema.server.url) as client:
        client.tables.create(f"{schema.name}.stock", columns, primary_key=["id"])
        assert schema.values(f"SHOW TABLES FROM {stores}") == ["base", "change", "merged"]
        schema.sql(
            f"INSERT INTO {stores}.base VALUES (1, 'one'), (2, 'two')",
            f"INSERT INTO {stores}.change (id, word, _op) VALUES (2, 'TWO', 'U'), (3, 'three', 'I')",
        )
        assert schema.rows(f"SELECT * FROM {stores}.base ORDER BY id") == [[1, "one"], [2, "two"]]
        assert schema.rows(f"SELECT id, word, _op FROM {stores}.change ORDER BY id") == [
            [2, "TWO", "U"],
            [3, "three", "I"],
        ]
        merged = client.scan(f"{schema.name}.stock").to_arrow()
    assert sorted(zip(merged["id"].to_pylist(), merged["word"].to_pylist(), strict=True)) == [
        (1, "one"),
        (2, "TWO"),
        (3, "three"),
    ]
    assert schema.rows(f"SELECT * FROM {schema}.stock ORDER BY id") == [[1, "one"], [2, "TWO"], [3, "three"]]
    assert schema.values(f"SELECT count(*) FROM {schema}.stock WHERE word = 'TWO'") == [1]
    with pytest.raises(Refused, match="Must use DVs"):
        schema.sql(f"DELETE FROM {stores}.base WHERE id = 1")
    with pytest.raises(Refused, match="is a store of the keyed table"):
        schema.sql(f"DROP TABLE {stores}.base")


def test_small_files_are_optimized_and_old_snapshots_expired(schema: Schema) -> None:
    t = f"{schema}.t"
    schema.sql(f"CREATE TABLE {t} (id BIGINT)", *(f"INSERT INTO {t} VALUES {n}" for n in range(3)))
    directory = Path(urlsplit(schema.pyiceberg().load_table((schema.name, "t")).location()).path)
    assert schema.values(f'SELECT count(*) FROM {schema}."t$files"') == [3]
    schema.sql(f"ALTER TABLE {t} EXECUTE optimize")
    assert schema.values(f'SELECT count(*) FROM {schema}."t$files"') == [1]
    assert len(list(directory.rglob("*.parquet"))) == 4
    now = {
        f"{schema.catalog}.{procedure}_min_retention": "0s" for procedure in ("expire_snapshots", "remove_orphan_files")
    }
    schema.trino.rows(f"ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')", **now)
    assert schema.values(f'SELECT count(*) FROM {schema}."t$snapshots"') == [1]
    (directory / "data" / "left-over.parquet").touch()
    schema.trino.rows(f"ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')", **now)
    assert len(list(directory.rglob("*.parquet"))) == 1
    assert schema.values(f"SELECT id FROM {t} ORDER BY id") == [0, 1, 2]


def test_names_with_dots_and_spaces_are_trinos_and_upper_case_is_found_on_request(
    schema: Schema, trino: Trino, on_sqlite: ServerProcess
) -> None:
    schema.sql(f'CREATE TABLE {schema}."We.ird +Name" AS SELECT 1 AS "An Id"')
    assert schema.values(f'SELECT "an id" FROM {schema}."we.ird +name"') == [1]
    catalog = schema.pyiceberg()
    assert catalog.list_tables(schema.name) == [(schema.name, "we.ird +name")]
    catalog.create_table((schema.name, "Orders"), pa.schema([("Id", pa.int64())])).append(pa.table({"Id": [7]}))
    with pytest.raises(Refused, match="TABLE_NOT_FOUND"):
        schema.rows(f"SELECT * FROM {schema}.Orders")
    folding = a_schema(trino, on_sqlite, "folding", **{"case-insensitive-name-matching": "true"})
    assert folding.values(f"SELECT id FROM folding.{schema.name}.orders") == [7]
    catalog.create_namespace((schema.name, "eu.west"))
    with pytest.raises(Refused, match="NOT_FOUND: Schema"):
        schema.sql(f'CREATE TABLE {schema.catalog}."{schema.name}.eu.west".t (id BIGINT)')


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("guarded") / "data", FIRN_ACCESS__ENABLED="true") as server:
        yield server


def test_what_one_may_not_see_does_not_exist_and_what_one_may_not_do_is_refused(
    trino: Trino, guarded: ServerProcess
) -> None:
    token = guarded.first_token
    assert token is not None
    admin = a_schema(trino, guarded, "admins", security="OAUTH2", **{"oauth2.token": token})
    admin.sql(*(f"CREATE TABLE {admin}.{name} AS SELECT 1 AS id" for name in ("shown", "hidden")))
    with firn.connect(guarded.url, token=token) as access:
        access.access.create_role("reader")
        access.access.grant("reader", ["read"], catalog="lake", namespace=(admin.name,), table="shown")
        secret = access.access.create_service("reader")["client_secret"]
        access.access.assign("reader", "reader")
    security = {
        "security": "OAUTH2",
        "oauth2.credential": f"reader:{secret}",
        "oauth2.server-uri": f"{guarded.url}/iceberg/v1/oauth/tokens",
    }
    trino.add_catalog("readers", connection(guarded, **security))
    seen = f"readers.{admin.name}"
    assert trino.values(f"SELECT id FROM {seen}.shown") == [1]
    assert trino.values(f"SHOW TABLES FROM {seen}") == ["shown"]
    with pytest.raises(Refused, match="TABLE_NOT_FOUND"):
        trino.rows(f"SELECT * FROM {seen}.hidden")
    for refused in (
        f"INSERT INTO {seen}.shown VALUES 2",
        f"DROP TABLE {seen}.shown",
        f"CREATE TABLE {seen}.mine (id BIGINT)",
        f"CREATE SCHEMA readers.mine{admin.name}",
    ):
        with pytest.raises(Refused, match=r"(?i)may not|forbidden|not allowed"):
            trino.rows(refused)
    assert admin.values(f"SELECT id FROM {admin}.shown") == [1]
    assert admin.values(f"SHOW TABLES FROM {admin}") == ["hidden", "shown"]
