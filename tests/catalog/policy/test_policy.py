"""Policies: units, layers, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catalog.errors import Invalid
from catalog.policy.policy import check_policy, check_settings, merge_layers
from catalog.policy.settings import SETTINGS, Setting
from catalog.policy.units import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"), [("90 s", 90), ("10 min", 600), ("2h", 7200), ("5 d", 432_000), ("250 ms", 0.25)]
)
def test_durations_have_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["10", "ten min", "10 fortnights", "-1 s", ""])
def test_a_duration_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("1 KiB", 1024), ("128 MiB", 128 * 2**20), ("1.5 GB", 1_500_000_000)]
)
def test_sizes_are_bytes_or_have_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_every_default_parses() -> None:
    for setting in SETTINGS.values():
        setting.parse(setting.default)


@pytest.mark.parametrize(
    "setting",
    [choice_setting for choice_setting in SETTINGS.values() if choice_setting.choices],
    ids=lambda choice_setting: choice_setting.key,
)
def test_of_a_few_choices_each_is_taken_and_nothing_else(setting: Setting) -> None:
    assert setting.default in setting.choices
    for choice in setting.choices:
        setting.parse(choice)
    with pytest.raises(Invalid):
        setting.parse("another")


def test_the_narrowest_layer_wins_and_is_named() -> None:
    key = "firn.merge.max-pending-rows"
    policy = merge_layers([("catalog", {key: "10"}), ("namespace db", {key: "20"}), ("table", {})])
    assert policy[key] == 20
    assert policy.explained()[key].source == "namespace db"
    assert policy.explained()["firn.merge.mode"].source == "default"


def test_a_typo_in_a_value_stops_no_job() -> None:
    key = "firn.merge.max-pending-rows"
    assert merge_layers([("table", {key: "lots"})])[key] == SETTINGS[key].parse(SETTINGS[key].default)


def test_a_typo_hides_nothing_that_is_wider() -> None:
    key, wider = "firn.expire.max-age", {"firn.expire.max-age": "90 d"}
    policy = merge_layers([("catalog", wider), ("namespace db", {key: "lots"}), ("table", {key: "90 days"})])
    assert policy[key] == timedelta(days=90)
    held = policy.explained()[key]
    assert (held.text, held.source) == ("90 d", "catalog")
    assert [(ignored.text, ignored.source) for ignored in held.ignored] == [
        ("lots", "namespace db"),
        ("90 days", "table"),
    ]
    assert held.ignored[1].reason == "'90 days' is not a duration"
    off = merge_layers([("catalog", {"firn.optimize.enabled": "false"}), ("table", {"firn.optimize.enabled": "flase"})])
    assert off["firn.optimize.enabled"] is False


def test_a_typo_that_something_narrower_hides_is_not_told() -> None:
    key = "firn.expire.max-age"
    policy = merge_layers([("catalog", {key: "90 days"}), ("table", {key: "9 d"})])
    assert policy.explained()[key].ignored == ()
    alone = merge_layers([("catalog", {key: "90 days"})]).explained()[key]
    assert (alone.source, [ignored.source for ignored in alone.ignored]) == ("default", ["catalog"])


def test_setting_a_policy_refuses_what_does_not_parse_or_is_not_known() -> None:
    with pytest.raises(Invalid, match="max-pending-rows"):
        check_settings({"firn.merge.max-pending-rows": "lots"})
    with pytest.raises(Invalid, match="unknown policy property"):
        check_settings({"firn.merge.max-pending-cows": "1"})
    check_settings({"write.parquet.compression-codec": "zstd", "firn.merge.mode": "vectors"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("firn.expire.max-age", "9999999 d"),
        ("firn.expire.max-age", "9" * 400 + " d"),
        ("firn.rewrite.target-file-size", "9" * 400),
        ("firn.merge.max-pending-rows", "9" * 5_000),
        ("firn.optimize.group", "g" * 300),
    ],
)
def test_a_value_that_no_clock_or_number_holds_is_a_typo_too(key: str, text: str) -> None:
    """Engines set properties unchecked: one table's stopped the planning of all."""
    assert merge_layers([("table", {key: text})])[key] == SETTINGS[key].parse(SETTINGS[key].default)


def test_whether_appends_are_rebased_is_said_by_a_table_alone() -> None:
    check_settings({"firn.append.rebase": "true"})
    with pytest.raises(Invalid, match=r"firn\.append\.rebase: 'maybe' is neither true nor false"):
        check_settings({"firn.append.rebase": "maybe"})
    with pytest.raises(Invalid, match="is no policy property"):
        check_policy({"firn.append.rebase": "true"})
