"""The page of change data capture: its file can be read, and plans what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from firn.cdc.config import read_config
from firn.protocol.cdc.debezium_types import _LOGICAL
from firn.protocol.cdc.observation import observe
from firn.protocol.cdc.plan import plan_topic
from firn.protocol.cdc.routing import CdcConfig
from firn.protocol.envelope_readers import build_reader
from tests.cdc_envelopes import debezium

PAGE = Path("docs/cdc.md").read_text()


def read_examples(folder: Path) -> list[CdcConfig]:
    texts = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return [read_config(folder / f"{number}.yaml") for number in range(len(texts))]


def test_the_example_of_avro_is_a_configuration(tmp_path: Path) -> None:
    _, avro = read_examples(tmp_path)
    assert (avro.format, avro.connection) == ("debezium-avro", "main")


def test_the_example_plans_its_tables(tmp_path: Path) -> None:
    config, _ = read_examples(tmp_path)
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
