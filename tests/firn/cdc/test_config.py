"""The file of `firn cdc`: each mistake has its line, and unknown fields name the nearest known one."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.cdc.config import read_config
from firn.errors import Invalid
from firn.protocol.cdc.routing import CdcConfig

GOOD = r"""
name: shop
format: debezium-json
brokers: [localhost:9092]
topics: shop\.shop\..*
tables:
  - include: shop\.(orders|items)
    exclude: shop\.items_old
    table: lake_shop.\1
    columns:
      amount: decimal(9,2)
    properties:
      firn.log.max-lag: 10 s
  - include: shop_(?P<shard>\w+)\.customers
    table: lake_shop.customers
    source_column: source
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sync.yaml"
    path.write_text(text)
    return path


def read(tmp_path: Path, text: str) -> CdcConfig:
    return read_config(write(tmp_path, text))


def test_a_file(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD)
    assert (config.name, config.format, config.start, config.deletes, config.schema) == (
        "shop",
        "debezium-json",
        "earliest",
        "apply",
        "add",
    )
    assert config.takes_topic("shop.shop.orders")
    assert not config.takes_topic("x.shop.shop.orders")
    routed = config.route("shop.orders")
    assert routed is not None
    assert routed[1] == "lake_shop.orders"
    assert routed[0].columns == {"amount": "decimal(9,2)"}
    assert config.route("shop.items_old") is None
    shard = config.route("shop_eu.customers")
    assert shard is not None
    assert shard[0].source_column == "source"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format: debezium-json", "format: debezium-jsn", r"line 3: format is 'debezium-jsn'"),
        ("format: debezium-json", "", r"format is ''"),
        ("brokers:", "broker:", r"either connection or brokers"),
        ("format: debezium-json", "format: debezium-avro", r"debezium-avro needs a connection"),
        ("name: shop", "name: shop\nunknown_schemas: skip", r"unknown_schemas is 'skip'"),
        ("topics: shop", "topic: shop", r"needs topics"),
        ("name: shop", "name: shop\nnames: x", r"line 3: the file has no field 'names'"),
        ("name: shop", "name: shop\nname: x", r"line 3: name comes twice"),
        ("name: shop", "name: a/b", r"line 2: 'a/b' is no name"),
        ("name: shop", "name: [a]", r"line 2: name is not a text"),
        ("name: shop", "name: ~", r"line 2: name is not a text"),
        ("topics: shop", "topics: '('\nx: shop", r"line 5: topics '\(' is no regular expression"),
        (r"table: lake_shop.\1", r"table: lake_shop.\2", r"line 9: .* does not fit include"),
        (r"table: lake_shop.\1", "tabel: x", r"needs table"),
        ("    source_column: source", "    source_column: source\n    sorce: x", r"line 17: .* has no field"),
        ("    source_column: source", "    partial: maybe", r"line 16: partial is 'maybe'"),
        ("    source_column: source", "    partial: true\n    partition_by: [day]", r"a partial table"),
        ("firn.log.max-lag: 10 s", "firn.log.topic: x", r"firn\.log\.topic comes from other fields"),
        ("      amount: decimal(9,2)", "      amount: [1]", r"line 11: amount is not a text"),
        ("brokers: [localhost:9092]", "brokers: &a [b:1]\nstart: *a", r"line 5: references"),
        ("name: shop", "name: 'shop", r"line \d+: "),
        ("name: shop", "[a]: b", r"line 2: the name of a field is not a text"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(Invalid, match=message) as refused:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert "sync.yaml" in refused.value.message


def test_unknown_fields_name_the_nearest_known_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as refused:
        read(tmp_path, GOOD.replace("    exclude:", "    exlude:"))
    assert refused.value.hint == "did you mean exclude?"


@pytest.mark.parametrize(
    "text", ["", "- a", "text", "a: b\n---\nc: d", "[" * 5000, "a: !!python/object:os.system x", "\x00"]
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid):
        read(tmp_path, text)


def test_a_file_that_is_too_large_or_not_utf8_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a: " + "b" * 1_000_001)
    with pytest.raises(Invalid, match="larger"):
        read_config(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(Invalid, match="UTF-8"):
        read_config(path)
