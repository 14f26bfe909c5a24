"""Spark's statements that define: namespaces, tables, columns, partitions, orders, properties, branches and tags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.engines.lake import LATEST_SPARK_ALONE, Lake
from tests.integration.engines.spark import LATEST, Refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), *LATEST_SPARK_ALONE]


def described(lake: Lake, table: str = "t") -> dict[str, str]:
    """Columns and their types."""
    rows = lake.rows(f"DESCRIBE {lake}.{table}")
    return {name: kind for name, kind, *_ in rows[: next((i for i, row in enumerate(rows) if not row[0]), len(rows))]}


def partition_fields(lake: Lake, table: str = "t") -> list[str]:
    """Of the current spec: `name=transform`; v1 keeps the dropped ones as void."""
    metadata = lake.metadata(table)
    (spec,) = [
        partition_spec
        for partition_spec in metadata["partition-specs"]
        if partition_spec["spec-id"] == metadata["default-spec-id"]
    ]
    return [f"{field['name']}={field['transform']}" for field in spec["fields"]]


def sort_fields(lake: Lake) -> list[str]:
    metadata = lake.metadata()
    (order,) = [
        sort_order
        for sort_order in metadata["sort-orders"]
        if sort_order["order-id"] == metadata["default-sort-order-id"]
    ]
    return [f"{field['transform']} {field['direction']} {field['null-order']}" for field in order["fields"]]


def current_schema(lake: Lake, table: str = "t") -> dict[str, Any]:
    metadata = lake.metadata(table)
    answer: dict[str, Any]
    (answer,) = [schema for schema in metadata["schemas"] if schema["schema-id"] == metadata["current-schema-id"]]
    return answer


def test_namespaces_nest_and_have_properties(lake: Lake) -> None:
    inner = f"{lake}.inner"
    lake.sql(
        f"CREATE NAMESPACE {inner} COMMENT 'inside' WITH PROPERTIES ('a' = '1')",
        f"CREATE NAMESPACE IF NOT EXISTS {inner}",
        f"CREATE NAMESPACE {inner}.`with.dot`",
        f"ALTER NAMESPACE {inner} SET PROPERTIES ('a' = '2', 'b' = 'three')",
        f"CREATE TABLE {inner}.`with.dot`.t AS SELECT 1 AS id",
    )
    assert lake.values(f"SHOW NAMESPACES IN {lake}") == [f"{lake.namespace}.inner"]
    assert lake.values(f"SHOW NAMESPACES IN {inner}") == [f"{lake.namespace}.inner.`with.dot`"]
    described = dict(lake.rows(f"DESCRIBE NAMESPACE EXTENDED {inner}"))
    assert described["Comment"] == "inside"
    assert "(a,2)" in described["Properties"]
    assert "(b,three)" in described["Properties"]
    assert lake.values(f"SELECT id FROM {inner}.`with.dot`.t") == [1]
    with pytest.raises(Refused, match=r"not empty|NOT_EMPTY"):
        lake.sql(f"DROP NAMESPACE {inner}.`with.dot`")
    lake.sql(
        f"DROP TABLE {inner}.`with.dot`.t",
        f"DROP NAMESPACE {inner}.`with.dot`",
        f"DROP NAMESPACE {inner}",
        f"DROP NAMESPACE IF EXISTS {inner}",
    )
    with pytest.raises(Refused, match=r"already exists|ALREADY_EXISTS"):
        lake.sql(f"CREATE NAMESPACE {lake}")


def test_a_table_is_created_with_every_clause_and_type(lake: Lake) -> None:
    place = f"{lake.server.data_dir}/warehouse/elsewhere/{lake.namespace}"
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT NOT NULL COMMENT 'unique id', flag BOOLEAN, i INT, f FLOAT, d DOUBLE, "
        "money DECIMAL(12, 3), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, data STRING, raw BINARY, "
        "place STRUCT<lat: DOUBLE, lon: DOUBLE>, tags ARRAY<STRING>, counts MAP<STRING, INT>) USING iceberg "
        "PARTITIONED BY (bucket(16, id), days(at), truncate(4, data), flag) COMMENT 'everything' "
        f"LOCATION '{place}' TBLPROPERTIES ('a' = 'b', 'format-version' = '2')",
        f"INSERT INTO {lake}.t VALUES (1, true, 2, 1.5, 2.5, 3.25, DATE'2026-01-02', TIMESTAMP'2026-01-02 03:04:05', "
        "TIMESTAMP_NTZ'2026-01-02 03:04:05', 'words', X'CAFE', named_struct('lat', 1.0, 'lon', 2.0), "
        "array('x', NULL), map('k', 1))",
        f"INSERT INTO {lake}.t SELECT 2{', NULL' * 13}",
    )
    assert partition_fields(lake) == [
        "id_bucket=bucket[16]", "at_day=day", "data_trunc=truncate[4]", "flag=identity",
    ]  # fmt: skip
    assert described(lake)["money"] == "decimal(12,3)"
    assert described(lake)["local"] == "timestamp_ntz"
    assert current_schema(lake)["fields"][0] == {
        "id": 1, "name": "id", "required": True, "type": "long", "doc": "unique id",
    }  # fmt: skip
    metadata = lake.metadata()
    assert metadata["location"].removeprefix("file:").lstrip("/") == place.lstrip("/")
    assert metadata["properties"]["a"] == "b"
    assert metadata["properties"]["comment"] == "everything"
    assert lake.rows(f"SELECT money, at, place.lon, tags, counts FROM {lake}.t ORDER BY id") == [
        ["3.250", "2026-01-02 03:04:05", 2.0, ["x", None], {"k": 1}],
        [None, None, None, None, None],
    ]
    with pytest.raises(Refused, match=r"already exists|ALREADY_EXISTS"):
        lake.sql(f"CREATE TABLE {lake}.t (id INT)")
    lake.sql(f"CREATE TABLE IF NOT EXISTS {lake}.t (other INT)")
    assert "id" in described(lake)


def test_tables_are_made_and_replaced_by_queries(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('a' = '1', 'kept' = 'yes') "
        "AS SELECT id, id % 2 AS part FROM range(4)"
    )
    first = lake.metadata()
    lake.sql(
        f"REPLACE TABLE {lake}.t USING iceberg PARTITIONED BY (truncate(1, word)) TBLPROPERTIES ('a' = '2') "
        "AS SELECT 7 AS id, 'seven' AS word"
    )
    assert lake.rows(f"SELECT * FROM {lake}.t") == [[7, "seven"]]
    second = lake.metadata()
    assert second["table-uuid"] == first["table-uuid"]
    assert second["properties"]["a"] == "2"
    assert second["properties"]["kept"] == "yes"
    assert len(second["snapshots"]) == 2
    assert len(lake.rows(f"SELECT * FROM {lake}.t VERSION AS OF {first['current-snapshot-id']}")) == 4
    lake.sql(
        f"CREATE OR REPLACE TABLE {lake}.t AS SELECT 1 AS only",
        f"CREATE OR REPLACE TABLE {lake}.u AS SELECT 2 AS only",
        f"CREATE OR REPLACE TABLE {lake}.u (empty INT)",
    )
    assert lake.values(f"SELECT only FROM {lake}.t") == [1]
    assert partition_fields(lake) in ([], ["word_trunc=void"])
    assert lake.rows(f"SELECT empty FROM {lake}.u") == []
    with pytest.raises(Refused, match=r"cannot be found|NOT_FOUND"):
        lake.sql(f"REPLACE TABLE {lake}.missing AS SELECT 1 AS id")
    with pytest.raises(Refused):
        lake.sql(f"CREATE TABLE {lake}.failed AS SELECT raise_error('no') AS id")
    assert lake.values(f"SHOW TABLES IN {lake}") == [lake.namespace] * 2


def test_columns_are_added_renamed_widened_moved_and_dropped(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id INT NOT NULL, f FLOAT, m DECIMAL(9, 2), data STRING, "
        "points ARRAY<STRUCT<x: INT>>, counts MAP<STRING, STRUCT<a: INT>>)",
        f"INSERT INTO {lake}.t VALUES (1, 0.5, 1.25, 'old', array(named_struct('x', 1)), "
        "map('k', named_struct('a', 1)))",
        f"ALTER TABLE {lake}.t ADD COLUMNS (note STRING COMMENT 'new', place STRUCT<lat: DOUBLE, lon: DOUBLE>)",
        f"ALTER TABLE {lake}.t ADD COLUMN place.high DOUBLE AFTER lat",
        f"ALTER TABLE {lake}.t ADD COLUMN points.element.y INT",
        f"ALTER TABLE {lake}.t ADD COLUMN counts.value.b INT",
        f"ALTER TABLE {lake}.t ADD COLUMN head INT FIRST",
        f"ALTER TABLE {lake}.t RENAME COLUMN data TO payload",
        f"ALTER TABLE {lake}.t RENAME COLUMN place.lon TO longitude",
        f"ALTER TABLE {lake}.t ALTER COLUMN id TYPE BIGINT",
        f"ALTER TABLE {lake}.t ALTER COLUMN f TYPE DOUBLE",
        f"ALTER TABLE {lake}.t ALTER COLUMN m TYPE DECIMAL(18, 2)",
        f"ALTER TABLE {lake}.t ALTER COLUMN id DROP NOT NULL",
        f"ALTER TABLE {lake}.t ALTER COLUMN payload COMMENT 'what it carries'",
        f"ALTER TABLE {lake}.t ALTER COLUMN payload AFTER id",
        f"ALTER TABLE {lake}.t ALTER COLUMN place.longitude FIRST",
        f"ALTER TABLE {lake}.t DROP COLUMN head",
        f"ALTER TABLE {lake}.t DROP COLUMNS (m, place.high)",
        f"INSERT INTO {lake}.t SELECT 2, 'new', NULL, NULL, NULL, NULL, named_struct('longitude', 1.0D, 'lat', 2.0D)",
    )
    assert described(lake) == {
        "id": "bigint",
        "payload": "string",
        "f": "double",
        "points": "array<struct<x:int,y:int>>",
        "counts": "map<string,struct<a:int,b:int>>",
        "note": "string",
        "place": "struct<longitude:double,lat:double>",
    }
    assert lake.rows(f"SELECT id, payload, f, points, place FROM {lake}.t ORDER BY id") == [
        [1, "old", 0.5, [[1, None]], None],
        [2, "new", None, None, [1.0, 2.0]],
    ]
    assert current_schema(lake)["fields"][1]["doc"] == "what it carries"
    with pytest.raises(Refused):
        lake.sql(f"ALTER TABLE {lake}.t ALTER COLUMN id TYPE INT")


@pytest.mark.parametrize("version", [1, 2])
def test_partition_fields_come_and_go_and_all_rows_stay_readable(lake: Lake, version: int) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, day DATE, data STRING) PARTITIONED BY (day) "
        f"TBLPROPERTIES ('format-version' = '{version}')"
    )
    changes = [
        "ADD PARTITION FIELD bucket(4, id) AS shard",
        "REPLACE PARTITION FIELD day WITH month(day) AS month",
        "DROP PARTITION FIELD shard",
        "ADD PARTITION FIELD truncate(2, data)",
    ]
    lake.sql(f"INSERT INTO {lake}.t VALUES (0, DATE'2026-01-01', 'zero')")
    for number, change in enumerate(changes, 1):
        lake.sql(
            f"ALTER TABLE {lake}.t {change}", f"INSERT INTO {lake}.t VALUES ({number}, DATE'2026-02-0{number}', 'more')"
        )
    fields = [field for field in partition_fields(lake) if not field.endswith("=void")]
    assert fields == ["month=month", "data_trunc_2=truncate[2]"]
    assert lake.values(f"SELECT id FROM {lake}.t ORDER BY id") == [0, 1, 2, 3, 4]
    assert lake.values(f"SELECT id FROM {lake}.t WHERE day >= DATE'2026-02-03' ORDER BY id") == [3, 4]
    assert len(lake.metadata()["partition-specs"]) == 5
    lake.sql(f"DELETE FROM {lake}.t WHERE day < DATE'2026-02-02'")
    assert lake.values(f"SELECT id FROM {lake}.t ORDER BY id") == [2, 3, 4]


def test_write_orders_distributions_and_identifier_fields_are_kept(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT NOT NULL, kind STRING NOT NULL) PARTITIONED BY (kind)",
        f"ALTER TABLE {lake}.t WRITE ORDERED BY kind ASC NULLS LAST, bucket(4, id) DESC NULLS FIRST",
    )
    assert sort_fields(lake) == ["identity asc nulls-last", "bucket[4] desc nulls-first"]
    assert lake.metadata()["properties"]["write.distribution-mode"] == "range"
    lake.sql(
        f"ALTER TABLE {lake}.t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id",
        f"INSERT INTO {lake}.t VALUES (2, 'a'), (1, 'a'), (3, 'b')",
    )
    assert sort_fields(lake) == ["identity asc nulls-first"]
    assert lake.metadata()["properties"]["write.distribution-mode"] == "hash"
    assert lake.values(f"SELECT sort_order_id FROM {lake}.t.files") == [2, 2]
    lake.sql(f"ALTER TABLE {lake}.t WRITE UNORDERED")
    assert sort_fields(lake) == []
    lake.sql(f"ALTER TABLE {lake}.t SET IDENTIFIER FIELDS id, kind")
    assert current_schema(lake)["identifier-field-ids"] == [1, 2]
    lake.sql(f"ALTER TABLE {lake}.t DROP IDENTIFIER FIELDS kind")
    assert current_schema(lake)["identifier-field-ids"] == [1]
    assert len(lake.rows(f"SELECT * FROM {lake}.t")) == 3


def test_properties_are_set_and_removed_and_the_format_is_upgraded(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t TBLPROPERTIES ('format-version' = '1') AS SELECT 1 AS id",
        f"ALTER TABLE {lake}.t SET TBLPROPERTIES ('read.split.target-size' = '268435456', 'comment' = 'A comment.')",
        f"ALTER TABLE {lake}.t UNSET TBLPROPERTIES ('read.split.target-size')",
        f"ALTER TABLE {lake}.t UNSET TBLPROPERTIES IF EXISTS ('never.there')",
    )
    properties = dict(lake.rows(f"SHOW TBLPROPERTIES {lake}.t"))
    assert lake.metadata()["properties"]["comment"] == "A comment."
    assert properties["format-version"] == "1"
    assert "read.split.target-size" not in properties
    for version in (2, 3):
        lake.sql(
            f"ALTER TABLE {lake}.t SET TBLPROPERTIES ('format-version' = '{version}')",
            f"INSERT INTO {lake}.t VALUES ({version})",
        )
        assert lake.metadata()["format-version"] == version
    assert lake.values(f"SELECT id FROM {lake}.t ORDER BY id") == [1, 2, 3]
    with pytest.raises(Refused, match="downgrade"):
        lake.sql(f"ALTER TABLE {lake}.t SET TBLPROPERTIES ('format-version' = '2')")


def test_branches_and_tags_are_made_moved_and_dropped(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {lake}.t AS SELECT 1 AS id", f"INSERT INTO {lake}.t VALUES (2)")
    first, second = lake.snapshots()
    lake.sql(
        f"ALTER TABLE {lake}.t CREATE BRANCH `audit-branch`",
        f"ALTER TABLE {lake}.t CREATE BRANCH IF NOT EXISTS `audit-branch`",
        f"ALTER TABLE {lake}.t CREATE OR REPLACE BRANCH old AS OF VERSION {first} RETAIN 30 DAYS "
        "WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS",
        f"ALTER TABLE {lake}.t CREATE TAG `historical-tag` AS OF VERSION {first} RETAIN 365 DAYS",
        f"ALTER TABLE {lake}.t CREATE TAG gone",
        f"ALTER TABLE {lake}.t REPLACE BRANCH `audit-branch` AS OF VERSION {first} RETAIN 60 DAYS",
        f"ALTER TABLE {lake}.t REPLACE TAG `historical-tag` AS OF VERSION {second}",
        f"ALTER TABLE {lake}.t DROP TAG gone",
        f"ALTER TABLE {lake}.t DROP TAG IF EXISTS gone",
    )
    day = 24 * 3600 * 1000
    refs = lake.metadata()["refs"]
    assert refs.pop("main") == {"snapshot-id": second, "type": "branch"}
    assert refs.pop("audit-branch") == {"snapshot-id": first, "type": "branch", "max-ref-age-ms": 60 * day}
    old = {"min-snapshots-to-keep": 3, "max-snapshot-age-ms": 2 * day, "max-ref-age-ms": 30 * day}
    assert refs.pop("old") == {"snapshot-id": first, "type": "branch", **old}
    assert refs.pop("historical-tag")["snapshot-id"] == second
    assert refs == {}
    with pytest.raises(Refused, match="already exists"):
        lake.sql(f"ALTER TABLE {lake}.t CREATE BRANCH old")
    lake.sql(f"ALTER TABLE {lake}.t DROP BRANCH old")
    assert lake.values(f"SELECT name FROM {lake}.t.refs ORDER BY name") == ["audit-branch", "historical-tag", "main"]


def test_tables_are_renamed_dropped_and_purged(lake: Lake) -> None:
    lake.sql(
        f"CREATE NAMESPACE {lake}.other",
        f"CREATE TABLE {lake}.t AS SELECT 1 AS id",
        f"ALTER TABLE {lake}.t RENAME TO {lake.namespace}.other.moved",
        f"CREATE TABLE {lake}.t AS SELECT 2 AS id",
    )
    assert lake.values(f"SELECT id FROM {lake}.other.moved") == [1]
    assert lake.values(f"SELECT id FROM {lake}.t") == [2]
    lake.sql(f"CREATE TABLE {lake}.u (id INT)")
    with pytest.raises(Refused, match=r"already exists|ALREADY_EXISTS"):
        lake.sql(f"ALTER TABLE {lake}.t RENAME TO {lake.namespace}.u")
    place = lake.directory()
    lake.sql(f"DROP TABLE {lake}.t PURGE", f"DROP TABLE {lake}.u", f"DROP TABLE IF EXISTS {lake}.u")
    assert lake.rows(f"SHOW TABLES IN {lake}") == []
    with pytest.raises(Refused, match="NOT_FOUND"):
        lake.rows(f"SELECT * FROM {lake}.t")
    lake.sql(f"CREATE TABLE {lake}.t (id INT)")
    assert lake.directory() != place


def test_types_of_the_third_format_come_back_as_they_were_written(lake: Lake) -> None:
    if lake.spark.version != LATEST:
        pytest.skip("Spark 3.5 has no variant")
    lake.sql(
        f"CREATE TABLE {lake}.t (id INT, doc VARIANT) TBLPROPERTIES ('format-version' = '3')",
        f"INSERT INTO {lake}.t SELECT 1, parse_json('{{\"a\": [1, 2]}}')",
    )
    assert lake.values(f"SELECT variant_get(doc, '$.a[1]', 'int') FROM {lake}.t") == [2]
    assert current_schema(lake)["fields"][1]["type"] == "variant"


def create_keyed_table(lake: Lake) -> None:
    """Keyed `t` with rows in base, and an update, a new row and a delete that are pending."""
    t = f"{lake}.t"
    lake.sql(
        f"CREATE TABLE {t} (id INT, qty INT, note STRING, gone STRING, part STRING) PARTITIONED BY (part) "
        "TBLPROPERTIES ('firn.primary-key' = 'id')",
        f"INSERT INTO {t}.base VALUES (1, 10, 'one', 'x', 'a'), (2, 20, 'two', 'x', 'b'), (3, 30, 'three', 'x', 'b')",
        f"INSERT INTO {t} VALUES (2, 22, 'TWO', 'y', 'a'), (4, 40, 'four', 'y', 'b')",
        f"INSERT INTO {t}.change VALUES (3, NULL, NULL, NULL, NULL, 'D', NULL)",
    )


def test_a_keyed_table_is_altered_under_its_own_name(lake: Lake) -> None:
    t = f"{lake}.t"
    create_keyed_table(lake)
    first = [[1, 10, "one", "a"], [2, 22, "TWO", "a"], [4, 40, "four", "b"]]
    rows = f"SELECT * FROM {t} ORDER BY id"
    for change in (
        "DROP COLUMN gone",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN qty TYPE BIGINT",
        "RENAME COLUMN note TO remark",
        "ALTER COLUMN remark COMMENT 'of the clerk'",
        "ADD PARTITION FIELD bucket(2, id)",
        "DROP PARTITION FIELD part",
        "SET TBLPROPERTIES ('comment' = 'sold', 'read.split.target-size' = '1048576')",
        "UNSET TBLPROPERTIES ('read.split.target-size')",
        "WRITE ORDERED BY qty",
    ):
        lake.sql(f"ALTER TABLE {t} {change}")
        assert lake.rows(rows) == first, change
    columns = {"id": "bigint", "qty": "bigint", "remark": "string", "part": "string"}
    for store, more in {"t": {}, "t.base": {}, "t.change": {"_op": "string", "_source": "string"}}.items():
        listed = {name: kind for name, kind in described(lake, store).items() if not name.startswith("#")}
        assert listed == {**columns, **more}
    assert specs_of(lake) == [["id_bucket_2=bucket[2]"], ["id_bucket_2=bucket[2]"], ["part=identity"]]
    assert lake.metadata()["properties"]["comment"] == "sold"  # which Spark does not show as a property
    assert "read.split.target-size" not in dict(lake.rows(f"SHOW TBLPROPERTIES {t}.base"))
    lake.sql(
        f"ALTER TABLE {t} ADD COLUMN gone BIGINT AFTER id",
        f"INSERT INTO {t}.base VALUES (5000000000, 5, 50, NULL, 'c')",
        f"INSERT INTO {t} VALUES (2, 7, 222, 'Two', 'c')",
        f"INSERT INTO {t}.change (id, gone, qty, remark, part, _op, _source) "
        "VALUES (1, NULL, NULL, NULL, NULL, 'D', NULL)",
    )
    expected = [[2, 7, 222, "Two", "c"], [4, None, 40, "four", "b"], [5_000_000_000, 5, 50, None, "c"]]
    assert lake.rows(rows) == lake.rows(f"SELECT * FROM {t}.merged ORDER BY id") == expected


def test_changes_that_a_keyed_table_does_not_take_are_refused_and_leave_it_as_it_is(lake: Lake) -> None:
    t = f"{lake}.t"
    lake.sql(
        f"CREATE TABLE {t} (id BIGINT, qty BIGINT, part STRING) PARTITIONED BY (part) "
        "TBLPROPERTIES ('firn.primary-key' = 'id')",
        f"INSERT INTO {t}.base VALUES (1, 10, 'a')",
        f"INSERT INTO {t} VALUES (2, 20, 'b')",
    )
    before = described(lake), specs_of(lake), dict(lake.rows(f"SHOW TBLPROPERTIES {t}"))
    for change, why in {
        "DROP COLUMN id": "primary key|identifier",
        "RENAME COLUMN id TO number": "is part of the primary key",
        "ALTER COLUMN qty TYPE INT": "(?i)not supported|cannot|CAST",
        "ADD COLUMN _op STRING": "_op",
        "SET TBLPROPERTIES ('firn.primary-key' = 'qty')": "firn.primary-key",
        "CREATE TAG now": "is a keyed table",
        "CREATE BRANCH side": "is a keyed table",
        "SET LOCATION 'file:///tmp/elsewhere'": "(?i)location",
    }.items():
        with pytest.raises(Refused, match=why):
            lake.sql(f"ALTER TABLE {t} {change}")
    assert (described(lake), specs_of(lake), dict(lake.rows(f"SHOW TBLPROPERTIES {t}"))) == before
    assert lake.rows(f"SELECT * FROM {t} ORDER BY id") == [[1, 10, "a"], [2, 20, "b"]]


def specs_of(lake: Lake) -> list[list[str]]:
    """The partition fields of the keyed table `t` and of both of its stores."""
    stores = replace(lake, namespace=f"{lake.namespace}\x1ft")
    return [partition_fields(lake, "t"), *(partition_fields(stores, name) for name in ("base", "change"))]
