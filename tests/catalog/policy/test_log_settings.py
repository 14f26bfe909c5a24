"""The properties of a log, and the values that they refuse."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from catalog.errors import Invalid
from catalog.policy.log_settings import LogSettings, check_no_log
from catalog.policy.policy import check_policy, check_settings

GOOD = {"firn.log.topic": "orders", "firn.log.connection": "main", "firn.log.format": "firn-json"}


def test_defaults() -> None:
    log = LogSettings.from_properties({**GOOD, "comment": "x"})
    assert log is not None
    assert (log.topic, log.connection, log.brokers, log.start) == ("orders", "main", None, "earliest")
    assert (log.max_lag.total_seconds(), log.max_batch_rows, log.max_tail_rows) == (30, 2_000_000, 5_000_000)
    assert (log.every_change, log.deletes) == (None, "apply")
    assert (log.bad_rows, log.max_bad_share) == ("quarantine", 0.1)
    assert LogSettings.from_properties({"comment": "x"}) is None


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("topic", "a/b", "is no topic"),
        ("topic", "", "is no topic"),
        ("topic", "..", "is no topic"),
        ("topic", "t" * 250, "is no topic"),
        ("topic", "orders\n", "is no topic"),
        ("source-tables", "shop.orders", "is for change data capture"),
        ("truncates", "apply", "is not one of stop, ignore, empty"),
        ("format", "csv", "is not one of firn-json, upsert-json"),
        ("start", "newest", "is not earliest, latest or a time with its zone"),
        ("start", "2026-01-01T00:00:00", "is not earliest, latest or a time with its zone"),
        ("start", "0001-01-01T00:00:00+14:00", "is not earliest, latest or a time with its zone"),
        ("start", "1969-12-31T23:59:59Z", "is not earliest, latest or a time with its zone"),
        ("start", "2026-01-01T00:00:00Z" + "0" * 40_000, "is not earliest, latest or a time with its zone"),
        ("every-change", "yes", "neither true nor false"),
        ("max-lag", "0.5 s", "is shorter than 1 s"),
        ("max-batch-rows", "0", "not a whole number"),
        ("deletes", "drop", "is not one of apply, ignore, stop"),
        ("bad-rows", "skip", "is not one of quarantine, stop"),
        ("max-bad-share", "1.5", "is not a share"),
        ("max-bad-share", "10 %", "is not a number with a unit"),
        ("brokers", "kafka:9092", "needs either"),
        ("password", "secret", "unknown property firn.log.password"),
    ],
)
def test_bad_values(key: str, text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        LogSettings.from_properties({**GOOD, f"firn.log.{key}": text})
    assert "secret" not in refused.value.message


def test_a_start_may_be_a_time_in_any_zone() -> None:
    log = LogSettings.from_properties({**GOOD, "firn.log.start": "2026-11-21T10:30:00+01:00"})
    assert log is not None
    assert log.start == datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("format", ["avro", "debezium-avro"])
def test_avro_needs_a_connection_which_names_the_registry(format: str) -> None:
    properties = {**GOOD, "firn.log.format": format}
    assert LogSettings.from_properties(properties) is not None
    del properties["firn.log.connection"]
    with pytest.raises(Invalid, match=r"avro needs firn\.log\.connection"):
        LogSettings.from_properties({**properties, "firn.log.brokers": "kafka:9092"})


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, False),
        ({"firn.log.source-tables": "shop_*.orders"}, False),
        ({"firn.log.source-tables": "shop.orders, shop.items"}, False),
        ({"firn.log.source-tables": "shop.orders"}, True),
        ({"firn.log.source-tables": "shop_*.orders", "firn.log.source-column": "source"}, True),
    ],
)
def test_a_truncate_of_one_table_deletes_no_rows_of_others(more: dict[str, str], fits: bool) -> None:  # noqa: FBT001
    properties = {**GOOD, "firn.log.format": "debezium-json", "firn.log.truncates": "empty", **more}
    if fits:
        assert LogSettings.from_properties(properties) is not None
    else:
        with pytest.raises(Invalid, match=r"needs firn\.log\.source-column"):
            LogSettings.from_properties(properties)


def test_envelopes_in_avro_take_the_settings_of_change_data_capture() -> None:
    capture = {**GOOD, "firn.log.format": "debezium-avro", "firn.log.source-tables": "shop.orders"}
    assert LogSettings.from_properties(capture) is not None
    assert LogSettings.from_properties({**capture, "firn.log.truncates": "empty"}) is not None


@pytest.mark.parametrize("missing", GOOD)
def test_topic_format_and_cluster_belong_together(missing: str) -> None:
    with pytest.raises(Invalid, match="needs"):
        LogSettings.from_properties({key: text for key, text in GOOD.items() if key != missing})


def test_a_log_is_a_property_of_a_keyed_table_and_no_policy() -> None:
    check_settings(GOOD)
    with pytest.raises(Invalid, match=r"firn\.log\.format"):
        check_settings({"firn.log.format": "csv"})
    with pytest.raises(Invalid, match="is no policy property"):
        check_policy({"firn.log.max-lag": "1 min"})
    with pytest.raises(Invalid, match="for keyed tables only"):
        check_no_log(GOOD)


def test_settings_of_change_data_capture() -> None:
    capture = {**GOOD, "firn.log.format": "debezium-json", "firn.log.source-tables": "shop.orders, shop_*.orders"}
    log = LogSettings.from_properties(capture)
    assert log is not None
    assert (log.schema, log.truncates, log.source_column) == ("add", "stop", None)
    for text in ("add", "ignore", "stop"):
        plain = LogSettings.from_properties({**GOOD, "firn.log.schema": text})
        assert plain is not None
        assert plain.schema == text, "records of every format may have columns that the table lacks"
    with pytest.raises(Invalid, match=r"firn\.log\.schema"):
        LogSettings.from_properties({**GOOD, "firn.log.schema": "merge"})
    for text in ("", "a,,b", "*****", "a" * 20_001):
        with pytest.raises(Invalid, match=r"firn\.log\.source-tables"):
            LogSettings.from_properties({**capture, "firn.log.source-tables": text})
