"""View metadata: versions, their history, and what a replacement may not lose."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.view import apply_view_updates, build_view, check_view_requirements, current_version
from tests.catalog.iceberg.build import CREATED_MS, NOW_MS, ORDERS, OTHER_UUID, UUID, column, hyphened, schema


def sql(text: str, dialect: str = "spark") -> Json:
    return {"type": "sql", "sql": text, "dialect": dialect}


def version(*representations: Json, number: int = 1, schema_id: int = 0, **more: object) -> Json:
    return {
        "version-id": number,
        "timestamp-ms": CREATED_MS + number,
        "schema-id": schema_id,
        "summary": {"engine-name": "spark"},
        "representations": list(representations or [sql("select 1")]),
        "default-namespace": ["db"],
        **hyphened(more),
    }


def a_view(first: Json | None = None, /, **properties: str) -> Json:
    return build_view(
        uuid=UUID,
        location="file:/warehouse/v/",
        schema=ORDERS,
        view_version=first or version(),
        properties=properties,
        now_ms=CREATED_MS,
    )


def add(added: Json) -> Json:
    return {"action": "add-view-version", "view-version": added}


def use(number: int) -> Json:
    return {"action": "set-current-view-version", "view-version-id": number}


def applied(view: Json, *updates: Json) -> Json:
    return apply_view_updates(view, updates, now_ms=NOW_MS)


def replaced(view: Json, times: int) -> Json:
    for number in range(2, times + 2):
        view = applied(view, add(version(sql(f"select {number}"), number=number)), use(-1))
    return view


def versions_of(view: Json) -> list[int]:
    return [known["version-id"] for known in view["versions"]]


def history_of(view: Json) -> list[int]:
    return [entry["version-id"] for entry in view["version-log"]]


def test_a_new_view_has_one_version_over_one_schema() -> None:
    assert a_view(version(number=9, schema_id=4), comment="ours") == {
        "view-uuid": UUID,
        "format-version": 1,
        "location": "file:/warehouse/v",
        "schemas": [ORDERS],
        "current-version-id": 1,
        "versions": [{**version(number=9), "version-id": 1}],
        "version-log": [{"timestamp-ms": CREATED_MS + 9, "version-id": 1}],
        "properties": {"comment": "ours"},
    }


def test_a_version_replaces_the_current_one_by_minus_1() -> None:
    view = replaced(a_view(), 1)
    assert current_version(view)["representations"] == [sql("select 2")]
    assert view["version-log"] == [
        {"timestamp-ms": CREATED_MS + 1, "version-id": 1},
        {"timestamp-ms": CREATED_MS + 2, "version-id": 2},
    ]


def test_a_version_gets_an_unused_id() -> None:
    assert versions_of(applied(a_view(), add(version(sql("select 2"), number=1)))) == [1, 2]


def test_a_version_that_behaves_the_same_is_reused() -> None:
    view = a_view()
    assert applied(view, add(version(number=5)), use(-1)) is view


@pytest.mark.parametrize(
    "other",
    [
        version(sql("select 1"), default_catalog="lake"),
        version(sql("select 1"), default_namespace=["elsewhere"]),
        version(sql("select 1"), summary={"engine-name": "trino"}),
        version(sql("select 1"), sql("select 1", "trino")),
    ],
)
def test_a_version_that_differs_is_a_new_one(other: Json) -> None:
    assert versions_of(applied(a_view(), add(other))) == [1, 2]


def test_an_older_version_becomes_current_now() -> None:
    view = applied(replaced(a_view(), 2), use(1))
    assert view["version-log"][-1] == {"timestamp-ms": NOW_MS, "version-id": 1}


def test_of_several_versions_made_current_in_one_request_the_last_is_history() -> None:
    view = applied(a_view(), add(version(sql("a"))), use(-1), add(version(sql("b"))), use(-1))
    assert history_of(view) == [1, 3]


def test_minus_1_is_the_last_added_schema_even_when_it_was_there_before() -> None:
    wider = schema(*ORDERS["fields"], column(4, "more"))
    view = applied(a_view(), {"action": "add-schema", "schema": wider}, add(version(sql("x"), schema_id=-1)), use(-1))
    assert current_version(view)["schema-id"] == 1
    again = applied(view, {"action": "add-schema", "schema": ORDERS}, add(version(sql("y"), schema_id=-1)), use(-1))
    assert (current_version(again)["schema-id"], len(again["schemas"])) == (0, 2)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (use(-1), "no view version has been added"),
        (use(7), "Cannot set current version to unknown version: 7"),
        (add(version(sql("x"), schema_id=-1)), "no schema has been added"),
        (add(version(sql("x"), schema_id=7)), "Cannot add version with unknown schema: 7"),
        (
            add(version(sql("x", "trino"), sql("y", "TRINO"))),
            "Invalid view version: Cannot add multiple queries for dialect trino",
        ),
        (add({**version(), "summary": None}), "'summary' must be an object"),
        (add(version({"type": "sql", "dialect": "spark"})), "'sql' is missing"),
        ({"action": "add-spec"}, "cannot apply update 'add-spec' to a view"),
        ({"action": "assign-uuid", "uuid": OTHER_UUID}, "Cannot reassign uuid"),
        ({"action": "assign-uuid", "uuid": "x"}, "'x' is not a UUID"),
        ({"action": "upgrade-format-version", "format-version": 0}, "Cannot downgrade v1 view to v0"),
        ({"action": "upgrade-format-version", "format-version": 2}, "unsupported format version: v2"),
    ],
)
def test_an_update_that_makes_no_sense_is_invalid(update: Json, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        applied(a_view(), update)


@pytest.mark.parametrize(
    "update",
    [
        {"action": "assign-uuid", "uuid": UUID.upper()},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "file:/warehouse/v"},
        {"action": "set-properties", "updates": {}},
        {"action": "remove-properties", "removals": ["ghost"]},
        use(1),
    ],
    ids=str,
)
def test_an_update_that_says_what_is_so_changes_nothing(update: Json) -> None:
    view = a_view()
    assert applied(view, update) is view


def test_location_and_properties_change_without_a_new_version() -> None:
    view = applied(
        a_view(a="1", b="2"),
        {"action": "set-location", "location": "file:/w/"},
        {"action": "set-properties", "updates": {"a": "3"}},
        {"action": "remove-properties", "removals": ["b"]},
    )
    assert (view["location"], view["properties"], history_of(view)) == ("file:/w", {"a": "3"}, [1])


def test_ten_versions_are_kept_and_the_history_of_just_those() -> None:
    view = replaced(a_view(), 12)
    assert versions_of(view) == history_of(view) == list(range(4, 14))


def test_as_many_versions_are_kept_as_the_property_says() -> None:
    assert versions_of(replaced(a_view(**{"version.history.num-entries": "2"}), 4)) == [4, 5]


def test_the_current_version_is_kept_however_old() -> None:
    view = applied(replaced(a_view(**{"version.history.num-entries": "3"}), 2), use(1))
    view = applied(view, add(version(sql("p"))), add(version(sql("q"))))
    assert versions_of(view) == [1, 4, 5]
    assert history_of(view) == [1]


def test_versions_that_a_request_brings_are_all_kept() -> None:
    view = applied(a_view(**{"version.history.num-entries": "1"}), *(add(version(sql(f"{n}"))) for n in range(3)))
    assert versions_of(view) == [1, 2, 3, 4]


@pytest.mark.parametrize("number", ["0", "-3", "few"])
def test_a_number_of_versions_must_be_positive(number: str) -> None:
    with pytest.raises(Invalid, match=f"must be positive but was {number}"):
        a_view(**{"version.history.num-entries": number})


def test_a_replacement_may_not_lose_a_dialect() -> None:
    view = a_view(version(sql("select 1"), sql("select 1", "Trino")))
    with pytest.raises(
        Invalid, match=r"loss of view dialects \(replace.drop-dialect.allowed=false\): previous spark, tri"
    ):
        applied(view, add(version(sql("select 2"))), use(-1))


def test_a_replacement_may_lose_a_dialect_when_the_view_allows_it() -> None:
    view = a_view(version(sql("select 1"), sql("select 1", "trino")), **{"replace.drop-dialect.allowed": "true"})
    view = applied(view, add(version(sql("select 2"))), use(-1))
    assert current_version(view)["representations"] == [sql("select 2")]


def test_fields_unknown_to_us_are_kept() -> None:
    view = applied({**a_view(), "x-ours": 1}, add(version(sql("z"), x_too=2)), use(-1))
    assert (view["x-ours"], current_version(view)["x-too"]) == (1, 2)


def test_the_input_is_left_as_it_was() -> None:
    view = a_view()
    before = repr(view)
    replaced(view, 2)
    assert repr(view) == before


def test_a_view_is_required_to_have_its_uuid() -> None:
    check_view_requirements(a_view(), [{"type": "assert-view-uuid", "uuid": UUID.upper()}])
    with pytest.raises(RequirementFailed, match=f"view UUID does not match: expected {UUID} != {OTHER_UUID}"):
        check_view_requirements(a_view(), [{"type": "assert-view-uuid", "uuid": OTHER_UUID}])
    with pytest.raises(RequirementFailed, match="view does not exist"):
        check_view_requirements(None, [{"type": "assert-view-uuid", "uuid": UUID}])


def test_a_requirement_of_tables_is_not_one_of_views() -> None:
    with pytest.raises(Invalid, match="cannot check requirement 'assert-create' of a view"):
        check_view_requirements(a_view(), [{"type": "assert-create"}])
