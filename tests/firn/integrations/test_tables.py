"""Waiting for tables: which commits count, and when a pipeline has brought a table up to its inputs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from firn.errors import Invalid, ServerFault
from firn.integrations.tables import TableCondition, load_newest_commit, split_table
from tests.firn.integrations.scripted import ScriptedServer, a_pipeline, a_table, refusal

HISTORY = "GET /catalogs/lake/tables/shop.orders/history"
AT = datetime(2026, 11, 28, 12, tzinfo=UTC)


def commit(**more: Any) -> dict[str, Any]:
    return {"snapshot_id": "7", "committed_at": AT.isoformat(), "operation": "append", "job_kind": None, **more}


def check(answer: Any, **condition: Any) -> Any:
    scripted = ScriptedServer({HISTORY: [answer], "GET /pipelines/orders": [answer]})
    fields = {"catalog": "lake", "table": "shop.orders", **condition}
    return scripted.run(TableCondition.read(fields).steps())


@pytest.mark.parametrize(
    ("entries", "is_satisfied"),
    [
        ([], False),
        ([commit()], True),
        ([commit(operation="replace")], False),
        ([commit(job_kind="merge", operation="overwrite")], False),
        ([commit(job_kind="expire"), commit(job_kind="pipeline")], True),
        ([commit(job_kind="sync")], True),
    ],
)
def test_maintenance_does_not_count(entries: list[Any], *, is_satisfied: bool) -> None:
    assert (check({"items": entries}) is not None) is is_satisfied


def test_a_table_that_does_not_exist_yet_is_waited_for() -> None:
    assert check(refusal(404, "not_found")) is None


@pytest.mark.parametrize(
    ("condition", "is_satisfied"),
    [
        ({"newer_than": "2026-11-28T11:59:59Z"}, True),
        ({"newer_than": "2026-11-28T12:00:00Z"}, False),
        ({"newer_than": "2026-11-28T13:00:00+02:00"}, True),
        ({"fresh_within_seconds": 60.0}, False),
    ],
)
def test_the_newest_commit_has_to_be_new_enough(condition: dict[str, Any], *, is_satisfied: bool) -> None:
    facts = check({"items": [commit()]}, **condition)
    assert facts == ({"snapshot_id": "7", "committed_at": AT.isoformat()} if is_satisfied else None)


def test_a_fresh_table_has_a_commit_of_the_last_seconds() -> None:
    recent = commit(committed_at=(datetime.now(UTC) - timedelta(seconds=5)).isoformat())
    assert check({"items": [recent]}, fresh_within_seconds=60.0) is not None


def pipeline(**table: Any) -> dict[str, Any]:
    return a_pipeline(a_table("shop.orders", **{"checkpoint": {"id": "c"}, **table}))


@pytest.mark.parametrize(
    ("table", "condition", "is_satisfied"),
    [
        ({"behind": 0}, {"newer_than": AT.isoformat()}, True),
        ({"behind": 0}, {"newer_than": "2999-01-01T00:00:00Z"}, False),
        ({"behind": 0}, {"fresh_within_seconds": 0.5}, True),
        ({"behind": 0}, {}, True),
        ({"behind": None, "checkpoint": None}, {}, False),
        ({"behind": 1, "behind_since": AT.isoformat()}, {"newer_than": AT.isoformat()}, True),
        ({"behind": 1, "behind_since": AT.isoformat()}, {"newer_than": "2026-11-28T12:00:01Z"}, False),
        ({"behind": 1, "behind_since": AT.isoformat()}, {"fresh_within_seconds": 60.0}, False),
        ({"behind": 1, "behind_since": None}, {}, False),
    ],
)
def test_a_pipeline_has_to_show_the_commits_to_its_inputs(
    table: dict[str, Any], condition: dict[str, Any], *, is_satisfied: bool
) -> None:
    assert (check(pipeline(**table), pipeline="orders", **condition) is not None) is is_satisfied


@pytest.mark.parametrize(
    "condition",
    [
        {"newer_than": "yesterday"},
        {"newer_than": "2026-11-28T12:00:00"},
        {"newer_than": "2026-11-28T12:00:00Z", "fresh_within_seconds": 5.0},
    ],
)
def test_conditions_that_make_no_sense_are_refused(condition: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        check({"items": []}, **condition)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>"),
        {},
        [],
        {"items": 7},
        {"items": [7]},
        {"items": [{"committed_at": "soon"}]},
        {"items": [{"snapshot_id": "1"}]},
    ],
    ids=range(7),
)
def test_an_answer_that_is_not_like_firns_is_an_error(answer: Any) -> None:
    with pytest.raises(ServerFault):
        check(answer)


def test_the_steps_wait_until_the_condition_holds() -> None:
    scripted = ScriptedServer({HISTORY: [{"items": []}, {"items": []}, {"items": [commit()]}]})
    condition = TableCondition(catalog="lake", table="shop.orders")
    assert scripted.run(condition.wait_steps(9.0))["snapshot_id"] == "7"
    assert scripted.paused == [9.0, 9.0]


def test_names_are_one_part_of_the_address() -> None:
    scripted = ScriptedServer({"GET /catalogs/a%2Fb/tables/%60x.y%60.%C3%A4%3Fz/history": [{"items": []}]})
    assert scripted.run(load_newest_commit("a/b", "`x.y`.ä?z")) is None
    assert split_table("`x.y`.ä", "a/b") == ("a/b", "x.y", "ä")
    for name in ("", "orders", "a..b", "a.`b"):
        with pytest.raises(Invalid):
            split_table(name, "lake")
