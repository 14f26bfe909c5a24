"""The page of change data capture: its file can be read, and plans what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from firn.cdc.config import read_config
from firn.protocol.cdc.debezium_types import _LOGICAL
from firn.protocol.cdc.observation import observe
from firn.protocol.cdc.plan import plan_topic
from firn.protocol.envelope_readers import build_reader
from tests.cdc_envelopes import debezium

PAGE = Path("docs/cdc.md").read_text()


def test_the_example_plans_its_tables(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "sync.yaml"
    path.write_text(text)
    config = read_config(path)
    assert config.takes_topic("shop.shop.orders")
    customers = {"db": "shop_eu", "table": "customers"}
    records = [
        debezium("c", after={"id": 1}, key={"id": 1}),
        debezium("c", after={"id": 1}, key={"id": 1}, source=customers),
    ]
    plan = plan_topic(config, "t", observe(build_reader(config.format), records), lambda _name: None)
    assert [(table.table, list(table.primary_key)) for table in plan.tables] == [
        ("lake_shop.customers", ["id", "source"]),
        ("lake_shop.orders", ["id"]),
    ]


def test_the_page_names_the_types_with_a_column_of_their_own() -> None:
    for name in (
        "Decimal",
        "VariableScaleDecimal",
        "MicroTimestamp",
        "NanoTimestamp",
        "ZonedTimestamp",
        "NanoTime",
        "Bits",
    ):
        assert any(known.endswith(f".{name}") for known in _LOGICAL)
        assert f"`{name}`" in PAGE
