"""Reports of engines: sent over the Iceberg API, shown by the management API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from catalog.errors import Unavailable
from tests.factories import LAKE
from tests.server.api.client import Api
from tests.server.lake import ORDERS, PLAIN

SCAN = {
    "report-type": "scan-report",
    "table-name": "lake.db.plain",
    "snapshot-id": 2**53 + 1,
    "filter": {"type": "true"},
    "schema-id": 0,
    "projected-field-ids": [1],
    "projected-field-names": ["id"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2_500_000},
        "result-data-files": {"unit": "count", "value": 3},
        "odd": {"unit": "count"},
    },
    "metadata": {"engine-name": "spark"},
}
COMMIT = {
    "report-type": "commit-report",
    "table-name": "lake.db.plain",
    "snapshot-id": 7,
    "sequence-number": 1,
    "operation": "append",
    "metrics": {"attempts": {"unit": "count", "value": 2}},
}


def send(api: Api, report: Any, table: str = "plain", namespace: str = "db") -> int:
    return api.http.post(
        f"/iceberg/v1/lake/namespaces/{namespace}/tables/{table}/metrics",
        json=report,
        headers={"X-Client-Version": "Apache Iceberg 1.12.0 (commit abc)"},
    ).status_code


def reports(api: Api, table: str = "db.plain", **params: Any) -> list[Any]:
    reports: list[Any] = api.get(f"{table}/metrics", **params)["items"]
    return reports


def test_reports_are_kept_and_shown_newest_first(api: Api) -> None:
    api.lake.create()
    assert [send(api, SCAN), send(api, COMMIT)] == [204, 204]
    commit, scan = reports(api)
    assert (commit["kind"], commit["figures"]) == ("commit-report", {"attempts": 2})
    assert (scan["snapshot_id"], scan["engine"]) == (str(2**53 + 1), "Apache Iceberg 1.12.0")
    assert scan["figures"] == {"total-planning-duration": 2.5, "result-data-files": 3}
    assert scan["report"] == SCAN
    assert [report["kind"] for report in reports(api, kind="scan-report")] == ["scan-report"]


def test_a_long_list_comes_in_pages(api: Api) -> None:
    api.lake.create()
    for number in range(5):
        send(api, {**SCAN, "snapshot-id": number})
    first = api.get("db.plain/metrics", limit=3)
    rest = api.get("db.plain/metrics", limit=3, cursor=first["next_cursor"])
    assert [report["snapshot_id"] for report in first["items"] + rest["items"]] == ["4", "3", "2", "1", "0"]
    assert rest["next_cursor"] is None


def test_a_keyed_table_shows_what_its_stores_and_pinned_tables_were_read_for(api: Api) -> None:
    api.lake.create_keyed()
    assert send(api, SCAN, "base", "db%1Forders") == 204
    assert send(api, SCAN, api.lake.services.keyed.pin(LAKE, ORDERS).base_name, "db%1Forders") == 204
    assert len(reports(api, "db.orders")) == 2


def test_a_report_of_a_table_that_is_gone_is_no_failure(api: Api) -> None:
    assert send(api, SCAN) == 204
    api.lake.create()
    assert reports(api) == []


def test_a_report_of_an_unknown_kind_is_refused(api: Api) -> None:
    api.lake.create()
    assert send(api, {"report-type": "gossip"}) == 400
    assert send(api, {}) == 400


def test_a_filter_that_makes_a_report_too_large_is_left_out(api: Api) -> None:
    api.lake.create()
    assert send(api, {**SCAN, "filter": {"type": "in", "term": "id", "values": list(range(50_000))}}) == 204
    assert "filter" not in reports(api)[0]["report"]
    assert send(api, {**SCAN, "metadata": {"why": "x" * 100_000}}) == 400


def test_what_cannot_be_written_waits_within_limits(api: Api) -> None:
    api.lake.create()
    waiting = api.lake.services.reports
    waiting.most_waiting = 10
    for number in range(15):
        waiting.take(LAKE, PLAIN, {**SCAN, "snapshot-id": number})
    api.lake.database.refuse()
    with pytest.raises(Unavailable):
        waiting.flush()
    newest = reports(api, limit=1)[0]
    assert newest["snapshot_id"] == "14"
    assert waiting.flush().written == 0
    assert len(reports(api)) == 10


def test_reports_are_forgotten_after_their_time(api: Api) -> None:
    api.lake.create()
    send(api, SCAN)
    assert len(reports(api)) == 1
    kept = api.lake.services.reports
    assert kept.remove_expired().forgotten == 0
    kept.keep = timedelta(seconds=-1)
    assert kept.remove_expired().forgotten == 1
    assert reports(api) == []
