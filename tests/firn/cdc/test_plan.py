"""The plan of `firn cdc`: tables, keys and types by what records show."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firn.protocol.cdc.observation import Observation, observe, widen_type
from firn.protocol.cdc.plan import Action, TablePlan, TopicPlan, plan_topic, refuse_shared_tables
from firn.protocol.cdc.routing import CdcConfig
from firn.protocol.envelope_readers import build_reader
from tests.cdc_envelopes import Record, debezium, field
from tests.firn.cdc.test_config import GOOD, read

DEBEZIUM = "debezium-json"
READER = build_reader(DEBEZIUM)
ORDER = debezium("c", after={"id": 1, "note": "x"}, key={"id": 1})
SHARDS = [
    debezium("c", after={"id": 1}, key={"id": 1}, source={"db": f"shop_{shard}", "table": "customers"})
    for shard in ("eu", "us")
]


@pytest.fixture
def config(tmp_path: Path) -> CdcConfig:
    return read(tmp_path, GOOD)


def loaded(**changes: Any) -> Any:
    properties = {
        "firn.log.topic": "t",
        "firn.log.format": DEBEZIUM,
        "firn.log.source-tables": "shop.orders",
        **changes.pop("properties", {}),
    }
    columns = [SimpleNamespace(name=name, type="long") for name in changes.pop("columns", ["id"])]
    return SimpleNamespace(**{"properties": properties, "columns": columns, "primary_key": ["id"], **changes})


def plan(config: CdcConfig, records: list[Record], table: Any = None) -> TopicPlan:
    return plan_topic(config, "t", observe(READER, records), lambda _name: table)


def only(topic: TopicPlan) -> TablePlan:
    (table,) = topic.tables
    return table


def test_a_new_table_has_the_key_and_the_types_of_the_records(config: CdcConfig) -> None:
    table = only(plan(config, [ORDER, debezium("c", after={"id": 2, "amount": 5}, key={"id": 2})]))
    assert (table.action, table.table, table.primary_key) == (Action.CREATE, "lake_shop.orders", ["id"])
    assert table.columns == {"id": "long", "note": "string", "amount": "decimal(9,2)"}


def test_a_name_that_is_no_table_is_a_problem_of_that_table_alone(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD.replace(r"lake_shop.\1", r"\1"))
    bad, good = sorted(plan(config, [ORDER, *SHARDS[:1]]).tables, key=lambda table: table.problem is None)
    assert (bad.action, good.action) == (Action.STOP, Action.CREATE)
    assert bad.problem == "shop.orders would go to 'orders', which is no NAMESPACE.TABLE"


def test_types_of_the_schema_part(config: CdcConfig) -> None:
    fields = [field("id", "int64"), field("at", "int64", "io.debezium.time.Timestamp"), field("unset", "int32")]
    record = debezium("c", after={"id": 1, "at": 0, "unset": None}, key={"id": 1}, fields=fields, key_fields=fields[:1])
    assert only(plan(config, [record])).columns == {
        "id": "long",
        "at": "timestamp",
        "unset": "int",
        "amount": "decimal(9,2)",
    }


def test_shards_share_a_table_and_their_key_has_the_source(config: CdcConfig) -> None:
    table = only(plan(config, SHARDS))
    assert table.sources == ["shop_eu.customers", "shop_us.customers"]
    assert (table.primary_key, table.columns) == (["id", "source"], {"id": "long", "source": "string"})


def test_shards_without_a_source_column_are_refused(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD.replace("    source_column: source\n", ""))
    table = only(plan(config, SHARDS))
    assert table.action is Action.STOP
    assert table.problem is not None
    assert "source_column" in table.problem


def test_tables_that_no_rule_takes_and_bad_records_are_named(config: CdcConfig) -> None:
    other = debezium("c", after={"id": 1}, source={"db": "shop", "table": "other"})
    topic = plan(config, [other, (None, b"no json")])
    assert (topic.tables, topic.left_out) == ([], ["shop.other"])
    assert (topic.bad, topic.records) == ({"the value is not a JSON object": 1}, 2)


def test_paimon_3511_new_columns_and_sources_of_a_table(config: CdcConfig) -> None:
    table = only(plan(config, [ORDER], loaded()))
    assert (table.action, table.columns, table.new_sources) == (Action.CHANGE, {"note": "string"}, [])
    assert only(plan(config, [ORDER], loaded(columns=["ID", "Note"]))).action is Action.NONE
    with_source = {
        "firn.log.source-tables": "shop_eu.customers, shop_old.customers",
        "firn.log.source-column": "source",
    }
    shards = only(plan(config, SHARDS, loaded(properties=with_source)))
    assert shards.new_sources == ["shop_us.customers"]
    assert shards.sources == ["shop_eu.customers", "shop_old.customers", "shop_us.customers"]


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"firn.log.topic": "u"}, "takes topic u"),
        ({"firn.log.topic": None}, "has no log"),
        ({"firn.log.format": "canal-json"}, "reads canal-json"),
        ({"firn.log.source-tables": "shop.others"}, "a source_column tells them apart"),
    ],
)
def test_a_table_that_cannot_take_the_rows(config: CdcConfig, properties: dict[str, Any], problem: str) -> None:
    table = only(plan(config, [ORDER], loaded(properties=properties)))
    assert table.action is Action.STOP
    assert table.problem is not None
    assert problem in table.problem


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (debezium("c", after={"id": 1}), "name no key"),
        (debezium("c", after={"id": 1, "_op": 5}, key={"id": 1}), "own columns"),
        (debezium("c", after={"id": 1, "ID": 5}, key={"id": 1}), "differ in case only"),
        (debezium("d", key={"id": 1}), "no column id"),
    ],
)
def test_records_that_make_no_table(config: CdcConfig, record: Record, problem: str) -> None:
    table = only(plan(config, [record]))
    assert table.problem is not None
    assert problem in table.problem


def test_two_topics_do_not_share_a_new_table(config: CdcConfig) -> None:
    first, second = refuse_shared_tables(
        [plan_topic(config, topic, observe(READER, [ORDER]), lambda _name: None) for topic in ("a", "b")]
    )
    assert only(first).action is Action.STOP
    assert only(second).problem == "a, b would share the table, and one table takes one topic"


@pytest.mark.parametrize(
    ("first", "other", "both"),
    [
        ("int", "int", "int"),
        ("int", "long", "long"),
        ("long", "double", "double"),
        ("decimal(9,2)", "decimal(5,4)", "decimal(11,4)"),
        ("decimal(38,0)", "decimal(38,38)", "string"),
        ("long", "string", "string"),
        ("date", "timestamp", "string"),
    ],
)
def test_types_that_differ_become_the_narrowest_that_has_both(first: str, other: str, both: str) -> None:
    assert (widen_type(first, other), widen_type(other, first)) == (both, both)


def test_an_observation_travels_as_a_document() -> None:
    observation = observe(READER, [ORDER, *SHARDS, (None, b"{}"), debezium("t")])
    copy = Observation.read(observation.to_json())
    assert copy == observation
    copy.merge(observation)
    assert copy.records == 10
    assert copy.tables["shop.orders"].truncates == 2
