"""Policies of catalogs and namespaces by the management API."""

from __future__ import annotations

from typing import Any

from tests.server.api.client import Api, good
from tests.server.lake import PLAIN, altered, set_property

POLICY = "/api/v1/catalogs/lake/policy"
ROWS = "firn.merge.max-pending-rows"
AGE = "firn.merge.max-pending-age"


def change(api: Api, body: dict[str, Any], **params: str) -> Any:
    return good(api.http.patch(POLICY, json=body, params=params))


def held(answer: Any, key: str) -> tuple[str, str]:
    """A setting's value and where it comes from."""
    setting = next(setting for setting in answer["effective"] if setting["key"] == key)
    return setting["value"], setting["source"]


def test_a_namespace_tells_what_it_inherits_and_from_where(api: Api) -> None:
    api.http.post("/api/v1/catalogs/lake/namespaces", json={"name": "shop.eu"}).raise_for_status()
    change(api, {"set": {ROWS: "1000", AGE: "1 min"}})
    change(api, {"set": {AGE: "2 min"}}, namespace="shop")
    inner = good(api.http.get(POLICY, params={"namespace": "shop.eu"}))
    assert inner["settings"] == {}
    assert held(inner, ROWS) == ("1000", "catalog")
    assert held(inner, AGE) == ("2 min", "namespace shop")
    assert held(inner, "firn.expire.min-snapshots") == ("10", "default")
    assert held(good(api.http.get(POLICY)), AGE) == ("1 min", "catalog")


def test_a_setting_tells_its_choices(api: Api) -> None:
    choices = {setting["key"]: setting["choices"] for setting in good(api.http.get(POLICY))["effective"]}
    assert choices["firn.merge.mode"] == ["auto", "rewrite", "vectors", "adopt"]
    assert choices["firn.optimize.enabled"] == ["true", "false"]
    assert choices[ROWS] == []


def test_a_change_leaves_the_other_settings_alone(api: Api) -> None:
    change(api, {"set": {ROWS: "1000", AGE: "1 min"}})
    changed = change(api, {"set": {ROWS: "2000"}, "remove": [AGE]})
    assert changed["settings"] == {ROWS: "2000"}
    assert held(changed, AGE) == ("10 min", "default")


def test_a_change_that_cannot_be_read_changes_nothing(api: Api) -> None:
    change(api, {"set": {ROWS: "1000"}})
    refused = api.http.patch(POLICY, json={"set": {AGE: "soon"}, "remove": [ROWS]})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == f"{AGE}: 'soon' is not a number with a unit"
    both = api.http.patch(POLICY, json={"set": {ROWS: "1"}, "remove": [ROWS]})
    assert both.json()["error"]["message"] == "the request both sets and removes a setting"
    nowhere = api.http.patch(POLICY, json={"set": {ROWS: "1"}}, params={"namespace": "nowhere"})
    assert nowhere.status_code == 404
    assert good(api.http.get(POLICY))["settings"] == {ROWS: "1000"}


def test_an_unknown_policy_key_of_a_table_was_stored_as_a_dead_property(api: Api) -> None:
    api.lake.create(PLAIN)
    path = "/api/v1/catalogs/lake/tables/db.plain/policy"
    for misspelled in ("merge.max-pending-rows", "firn.merge.max-pending-row"):
        refused = api.http.patch(path, json={"set": {misspelled: "5"}})
        assert refused.status_code == 400
        assert refused.json()["error"]["hint"] == f"did you mean {ROWS}?"
    far = api.http.patch(path, json={"set": {"owner": "ann"}})
    assert far.status_code == 400
    assert "known are" in far.json()["error"]["hint"]
    both = api.http.patch(path, json={"set": {ROWS: "5"}, "remove": [ROWS]})
    assert both.json()["error"]["message"] == f"the request both sets and removes {ROWS}"
    shown = good(api.http.patch(path, json={"set": {ROWS: "5"}}))
    assert [(setting["key"], setting["value"]) for setting in shown if setting["source"] == "table"] == [(ROWS, "5")]
    assert good(api.http.patch(path, json={"remove": [ROWS]})) == good(api.http.get(path))


def test_what_an_engine_has_misspelled_is_shown_beside_what_holds(api: Api) -> None:
    """Engines set properties unchecked; API, CLI and console never see such a value refused."""
    change(api, {"set": {"firn.expire.max-age": "90 d"}})
    api.lake.create(PLAIN)
    api.lake.commit(altered(PLAIN, set_property("firn.expire.max-age", "90 days")))
    shown = good(api.http.get("/api/v1/catalogs/lake/tables/db.plain/policy"))
    age = next(setting for setting in shown if setting["key"] == "firn.expire.max-age")
    assert (age["value"], age["source"]) == ("90 d", "catalog")
    reason = "'90 days' is not a duration"
    assert age["ignored"] == [{"value": "90 days", "source": "table", "reason": reason}]
