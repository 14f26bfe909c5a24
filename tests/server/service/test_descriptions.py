"""Descriptions of tables and columns: one commit, and nothing that others alter at the same time is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.errors import NotFound, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.names import TableName
from catalog.tables.column_description import list_fields
from catalog.tables.description import DescriptionChange, read_column_labels, read_description
from firn.protocol.search import SearchKind
from server.service.access.visibility import Visibility
from server.service.commit.commit_path import CommitRequest
from server.service.search.search import SearchRequest
from server.service.tables import descriptions
from server.service.tables.descriptions import TableDescriptionChange
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, PLAIN, Lake, altered

MONEY = DescriptionChange(comment="gross, in cents", add_labels=["money"])


def change(comment: str | None = None, **columns: DescriptionChange) -> TableDescriptionChange:
    return TableDescriptionChange(table=DescriptionChange(comment=comment), columns=columns)


def comments(metadata: Json) -> dict[str, str | None]:
    return {path: field.get("doc") for path, field in list_fields(current_schema(metadata))}


def add_column(lake: Lake, table: TableName, name: str) -> None:
    metadata = lake.metadata(table)
    schema = current_schema(metadata)
    field = {"id": metadata["last-column-id"] + 1, "name": name, "type": "string", "required": False}
    schema = {**schema, "fields": [*schema["fields"], field]}
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    lake.services.committer.commit(CommitRequest(catalog=LAKE, changes=[altered(table, *updates)]))


def interrupted(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, times: int = 1) -> None:
    """Act between the moment when a change has read the columns and its commit."""
    build, left = descriptions._build_column_updates, [times]

    def build_and_act(*args: Any) -> list[Json]:
        updates = build(*args)
        if left[0]:
            left[0] -= 1
            act()
        return updates

    monkeypatch.setattr(descriptions, "_build_column_updates", build_and_act)


def version_of(lake: Lake) -> int:
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, PLAIN)
    assert relation is not None
    return relation.version


@pytest.fixture
def plain(lake: Lake) -> Lake:
    lake.create(PLAIN)
    return lake


def test_a_table_and_its_columns_are_described_in_one_commit(plain: Lake) -> None:
    version = version_of(plain)
    wanted = TableDescriptionChange(
        table=DescriptionChange(comment="One row an order", owner="sales", add_labels=["pii"]), columns={"id": MONEY}
    )
    plain.services.descriptions.change_table(LAKE, PLAIN, wanted)
    metadata = plain.metadata(PLAIN)
    assert version_of(plain) == version + 1
    described = read_description(metadata["properties"])
    assert (described.comment, described.owner, described.labels) == ("One row an order", "sales", ("pii",))
    assert comments(metadata)["id"] == "gross, in cents"
    assert read_column_labels(metadata["properties"]) == {1: ("money",)}
    plain.services.descriptions.change_table(LAKE, PLAIN, change(id=DescriptionChange(comment="gross, in cents")))
    assert version_of(plain) == version + 1, "nothing to change is no commit"
    plain.services.descriptions.change_table(LAKE, PLAIN, change("", id=DescriptionChange(comment="")))
    assert comments(plain.metadata(PLAIN))["id"] is None
    assert "comment" not in plain.metadata(PLAIN)["properties"]


def test_both_stores_of_a_keyed_table_get_the_comments(lake: Lake) -> None:
    lake.create_keyed(ORDERS)
    lake.services.descriptions.change_table(LAKE, ORDERS, change("One row an order", id=MONEY))
    assert comments(lake.metadata(BASE))["id"] == comments(lake.metadata(CHANGE))["id"] == "gross, in cents"
    assert lake.metadata(BASE)["properties"]["comment"] == "One row an order"


@pytest.mark.parametrize("table", [PLAIN, BASE])
def test_a_column_that_is_added_at_the_same_time_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, table: TableName
) -> None:
    lake.create(PLAIN)
    lake.create_keyed(ORDERS)
    interrupted(monkeypatch, lambda: add_column(lake, table, "added"))
    lake.services.descriptions.change_table(LAKE, PLAIN if table == PLAIN else ORDERS, change(id=MONEY))
    column_comments = comments(lake.metadata(table))
    assert column_comments["id"] == "gross, in cents"
    assert "added" in column_comments


def test_labels_of_two_people_at_once_both_stay(plain: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    other = DescriptionChange(comment="theirs", add_labels=["audited"])
    services = plain.services
    interrupted(monkeypatch, lambda: services.descriptions.change_table(LAKE, PLAIN, change(note=other)))
    services.descriptions.change_table(LAKE, PLAIN, change(id=MONEY, note=DescriptionChange(add_labels=["pii"])))
    metadata = plain.metadata(PLAIN)
    ids = {path: field["id"] for path, field in list_fields(current_schema(metadata))}
    assert comments(metadata)["note"] == "theirs"
    assert read_column_labels(metadata["properties"]) == {ids["id"]: ("money",), ids["note"]: ("audited", "pii")}


def test_a_table_that_is_altered_all_the_time_is_refused_in_the_end(
    plain: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(f"c{number}" for number in range(100))
    interrupted(monkeypatch, lambda: add_column(plain, PLAIN, next(names)), times=100)
    with pytest.raises(RequirementFailed):
        plain.services.descriptions.change_table(LAKE, PLAIN, change(id=MONEY))
    assert comments(plain.metadata(PLAIN))["id"] is None


def test_an_unknown_column_changes_nothing(plain: Lake) -> None:
    version = version_of(plain)
    with pytest.raises(NotFound, match="no column 'nobody'"):
        plain.services.descriptions.change_table(LAKE, PLAIN, change("kept out", nobody=MONEY))
    assert version_of(plain) == version


def test_a_search_finds_owners_labels_and_the_comments_of_namespaces_and_catalogs(plain: Lake) -> None:
    plain.create(TableName(("db",), "other"))
    services = plain.services
    wanted = TableDescriptionChange(
        table=DescriptionChange(owner="Team Sales", add_labels=["cost-center"]),
        columns={"id": DescriptionChange(add_labels=["pii"])},
    )
    services.descriptions.change_table(LAKE, PLAIN, wanted)
    services.descriptions.change_namespace(
        LAKE, ("db",), DescriptionChange(comment="Größe of shops", add_labels=["pii"])
    )
    services.descriptions.change_catalog(LAKE, DescriptionChange(owner="data platform"))
    services.search_indexing.run_once()

    def find(text: str) -> list[tuple[str, str, str]]:
        request = SearchRequest(text=text, visible=Visibility(None), owner=None)
        hits = services.search.run(request)
        return [(hit.kind, hit.name, hit.text) for hit in hits if hit.kind is not SearchKind.SETTING]

    of_column = ("table", "db.plain", "column id: label pii")
    assert find("label:pii") == [of_column, ("namespace", "db", "label pii")]
    assert find("tag:PI plain") == [of_column]
    assert find("label:cost-center") == find("label:cost") == [("table", "db.plain", "label cost-center")]
    assert find("label:pii label:cost") == [of_column]
    assert find("label:center") == find("label:' OR 1") == find("label:pii nothing") == []
    assert find("pii") == [of_column, ("namespace", "db", "label pii")]
    assert find("sales team") == [("table", "db.plain", "owner: Team Sales")]
    assert find("grösse shops") == [("namespace", "db", 'comment: "Größe of shops"')]
    assert find("platform") == [("catalog", "lake", "owner: data platform")]
