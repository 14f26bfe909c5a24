"""The dialog of a publish. The server's answers about Hive are the test's: no Hive is needed to show them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser import OpenPage, violations
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser
TABLE, HIVE = "web.orders", "db.orders"
DIRECTORY = "hdfs://prod/hive/orders/day=1"
INSTEAD = "the owner is firn instead of lily: an ACL entry gives the same access"
ADVICE = "let lily set a default ACL, so that firn can read files that others add"
REFUSED = "lily would lose access: the cluster has ACLs turned off"
KEPT: dict[str, Any] = {"directory": DIRECTORY, "permissions": "lily:hive rwxr-x---", "not_kept": []}
KEPT |= {"refused": None, "hint": None}
ROW = {
    **dict.fromkeys(("drift", "drift_kind", "drift_since", "likely_author", "lock_warning", "operation_id")),
    **dict.fromkeys(("publish_request", "published_at", "synced_at", "unpublished")),
    "blockers": [],
    "column_differences": [],
    "columns": 2,
    "database": "db",
    "format": "parquet",
    "name": "orders",
    "location": "hdfs://prod/hive/orders",
    "partition_columns": ["day"],
    "partitioned": True,
    "seen_at": "2026-11-26T00:00:00Z",
    "state": "upgraded",
    "upgraded_to": TABLE,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("publishing") / "data") as running:
        columns = [{"name": "id", "type": "long"}]
        running.post("catalogs/lake/tables", {"name": TABLE, "columns": columns, "primary_key": []})
        yield running


def open_dialog(server: ServerProcess, open_page: OpenPage, **permissions: Any) -> tuple[Page, Locator, list[str]]:
    """Open the dialog over a preview; returns the requests to publish, too."""
    published: list[str] = []
    work = {"new": 1, "names": ["day=1"], "files": 2, "rows": 30, "bytes": 2048, "pending_rows": 4}
    preview = {"table": TABLE, "differing": 2, "since": None, "permissions": KEPT | permissions, **work}

    def link(route: Route) -> None:
        answer = route.fetch()
        table = answer.json() | {"hive_name": HIVE}
        table["allowed_actions"] = [*table["allowed_actions"], "publish"]
        route.fulfill(response=answer, body=json.dumps(table))

    def publish(route: Route) -> None:
        if route.request.method == "GET":
            assert "permissions=true" in route.request.url
            route.fulfill(json=preview)
        else:
            published.append(route.request.url)
            route.fulfill(status=503, json={"error": {"code": "unavailable", "message": "busy", "hint": None}})

    page = open_page(f"{server.url}/c/lake/tables")
    page.route(f"**/api/v1/catalogs/lake/tables/{TABLE}", link)
    page.route(f"**/api/v1/catalogs/lake/hive/{HIVE}", lambda route: route.fulfill(json=ROW))
    page.route(f"**/api/v1/catalogs/lake/hive/{HIVE}/publish?*", publish)
    page.goto(f"{server.url}/c/lake/tables/{TABLE}")
    page.get_by_role("button", name="Publish", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Publish to Hive: {HIVE}")
    for text in ("2 partitions", "pending changes", "now 2 KiB in 2 files", "day=1"):
        expect(dialog).to_contain_text(text)
    expect(dialog).to_contain_text(DIRECTORY)
    assert violations(page) == []
    return page, dialog, published


def test_nothing_is_published_before_the_dialog_is_confirmed(server: ServerProcess, open_page: OpenPage) -> None:
    page, dialog, published = open_dialog(server, open_page)
    expect(dialog).to_contain_text("New directories get the same owner, group, mode and ACL.")
    assert published == []
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_text("cannot publish")).to_be_visible()
    assert len(published) == 1
    assert "merge=true" in published[0]


def test_the_dialog_says_which_permissions_the_server_may_not_set(server: ServerProcess, open_page: OpenPage) -> None:
    _, dialog, _ = open_dialog(server, open_page, not_kept=[INSTEAD], hint=ADVICE)
    for text in ("New directories do not get all of these permissions", INSTEAD, ADVICE):
        expect(dialog).to_contain_text(text)
    expect(dialog.get_by_role("button", name="Publish", exact=True)).not_to_have_attribute("aria-disabled", "true")


def test_a_publish_that_would_fail_cannot_be_confirmed(server: ServerProcess, open_page: OpenPage) -> None:
    _, dialog, published = open_dialog(server, open_page, refused=REFUSED, hint=ADVICE)
    expect(dialog.get_by_role("alert")).to_contain_text(REFUSED)
    button = dialog.get_by_role("button", name="Publish", exact=True)
    expect(button).to_have_attribute("aria-disabled", "true")
    assert published == []
