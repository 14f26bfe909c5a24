"""Groups of optimizers through the API, on both databases."""

from __future__ import annotations

from typing import Any

from catalog.jobs.job import JobKind
from firn.protocol.leases import PROTOCOL
from server.service.optimizers.optimizers import Registration
from tests.factories import LAKE
from tests.server.api.client import Api, good
from tests.server.lake import PLAIN

GROUPS = "/api/v1/groups"


def refused(api: Api, method: str, path: str, body: Any = None) -> tuple[int, str]:
    answer = api.http.request(method, f"{GROUPS}{path}", json=body)
    return answer.status_code, answer.json()["error"]["message"]


def test_the_default_group_is_always_there_and_can_be_set(api: Api) -> None:
    (default,) = good(api.http.get(GROUPS))
    assert (default["name"], default["reserved_slots"], default["catalog_quota"]) == ("default", 1, 1.0)
    changed = good(api.http.put(f"{GROUPS}/default", json={"reserved_slots": 3, "catalog_quota": 0.5}))
    assert good(api.http.get(f"{GROUPS}/default")) == changed
    assert changed["reserved_slots"] == 3
    assert refused(api, "DELETE", "/default") == (409, "the group default is always there")
    assert refused(api, "POST", "", {"name": "default"}) == (409, "group default already exists")


def test_a_group_is_made_once_changed_and_dropped(api: Api) -> None:
    created = good(api.http.post(GROUPS, json={"name": "nightly", "description": "large tables"}))
    assert refused(api, "POST", "", {"name": "nightly"}) == (409, "group nightly already exists")
    changed = good(api.http.put(f"{GROUPS}/nightly", json={"reserved_slots": 0}))
    assert (changed["reserved_slots"], changed["description"], changed["created_at"]) == (
        0,
        "",
        created["created_at"],
    )
    assert [group["name"] for group in good(api.http.get(GROUPS))] == ["default", "nightly"]
    assert api.http.delete(f"{GROUPS}/nightly").status_code == 204
    assert refused(api, "PUT", "/nightly", {}) == (404, "group nightly does not exist")


def test_the_list_says_how_many_optimizers_are_wanted_and_work_where_the_server_starts_them(administered: Api) -> None:
    good(administered.http.post(GROUPS, json={"name": "by-hand"}))
    launch = {"kind": "local", "scaling": {"minimum": 2, "maximum": 3}}
    good(administered.http.put(f"{GROUPS}/default/launch", json=launch))
    listed = {group["name"]: (group["wanted"], group["working"]) for group in good(administered.http.get(GROUPS))}
    assert listed == {"default": (2, 0), "by-hand": (None, 0)}


def test_what_is_not_named_of_a_group_stays(api: Api) -> None:
    created = good(api.http.post(GROUPS, json={"name": "nightly", "description": "large tables"}))
    changed = good(api.http.patch(f"{GROUPS}/nightly", json={"reserved_slots": 0}))
    assert changed == created | {"reserved_slots": 0}
    assert good(api.http.get(f"{GROUPS}/nightly")) == changed
    assert good(api.http.patch(f"{GROUPS}/default", json={"catalog_quota": 0.5}))["reserved_slots"] == 1
    assert refused(api, "PATCH", "/nightly", {"catalog_quota": 0})[0] == 400
    assert refused(api, "PATCH", "/nowhere", {}) == (404, "group nowhere does not exist")


def test_what_is_not_named_of_a_launch_stays(administered: Api) -> None:
    path = f"{GROUPS}/default/launch"
    wanted = {"kind": "spark-submit", "conf": {"spark.a": "b"}, "memory_limit": 2**35, "scaling": {"maximum": 3}}
    stored = good(administered.http.put(path, json=wanted))
    changed = good(
        administered.http.patch(path, json={"memory": "4g", "memory_limit": None, "scaling": {"idle_seconds": 5}})
    )
    scaling = stored["scaling"] | {"idle_seconds": 5}
    assert changed == stored | {"memory": "4g", "memory_limit": None, "scaling": scaling}
    assert (stored["sql"], good(administered.http.patch(path, json={"sql": 2}))["sql"]) == (0, 2)
    shown = good(administered.http.post(f"{path}/dry-run", json={"kind": "local"}))["arguments"]
    assert shown[shown.index("--sql") + 1] == "2"
    for hostile in ("2 --group x", 257, -1, 2**70, 1.5, True, None):
        assert refused(administered, "PATCH", "/default/launch", {"sql": hostile})[0] in (400, 422), hostile
    assert good(administered.http.patch(path, json={"py_files": ["p.py"]}))["py_files"] == ["p.py"]
    assert refused(administered, "PATCH", "/default/launch", {"memory": "much"})[0] == 400
    assert refused(administered, "PATCH", "/nowhere/launch", {})[0] == 404


def test_settings_for_a_cluster_are_stored_and_removed(administered: Api) -> None:
    path = f"{GROUPS}/default/launch"
    cluster = {
        "master": "yarn",
        "deploy_mode": "cluster",
        "queue": "etl",
        "principal": "firn@R",
        "keytab": "/k",
        "archive": "hdfs:///firn.zip",
        "jars": ["hdfs:///iceberg.jar"],
        "file_systems": ["hdfs://b"],
    }
    stored = good(administered.http.patch(path, json={"kind": "spark-submit", **cluster}))
    assert {name: stored[name] for name in cluster} == cluster
    assert good(administered.http.get(path)) == stored
    assert refused(administered, "PATCH", "/default/launch", {"proxy_user": "ann"})[0] == 400
    changed = good(administered.http.patch(path, json={"keytab": None, "principal": None, "proxy_user": "ann"}))
    assert (changed["keytab"], changed["proxy_user"], changed["queue"]) == (None, "ann", "etl")


def test_a_dry_run_shows_the_command_and_saves_nothing(administered: Api) -> None:
    before = good(administered.http.get(f"{GROUPS}/default/launch"))
    wanted = {
        "kind": "spark-submit",
        "master": "yarn",
        "deploy_mode": "cluster",
        "queue": "etl",
        "conf": {"spark.a.secret": "s"},
    }
    shown = good(administered.http.post(f"{GROUPS}/default/launch/dry-run", json=wanted))
    assert shown["arguments"][1:5] == ["--master", "yarn", "--deploy-mode", "cluster"]
    assert "spark.yarn.queue=etl\n" in shown["files"]["spark.conf"]
    assert "spark.a.secret=(hidden)\n" in shown["files"]["spark.conf"]
    assert good(administered.http.get(f"{GROUPS}/default/launch")) == before
    by_users = refused(administered, "POST", "/default/launch/dry-run", {"kind": "none"})
    assert by_users == (400, "users start the optimizers of group default")
    assert refused(administered, "POST", "/nowhere/launch/dry-run", {"kind": "local"})[0] == 404


def test_bad_settings_and_names_are_refused(api: Api) -> None:
    assert refused(api, "POST", "", {"name": "two words"})[0] == 400
    assert refused(api, "PUT", "/default", {"catalog_quota": 0})[0] == 400
    assert refused(api, "PUT", "/default", {"reserved_slots": 10**19})[0] == 400


def test_a_group_that_is_waited_for_or_worked_in_is_not_dropped(api: Api) -> None:
    good(api.http.post(GROUPS, json={"name": "nightly"}))
    api.lake.create(PLAIN, **{"firn.optimize.group": "nightly"})
    api.lake.append(PLAIN)
    job = api.lake.services.planner.run_now(LAKE, PLAIN, JobKind.REWRITE, {})
    assert refused(api, "DELETE", "/nightly") == (409, "1 jobs of group nightly have not ended")
    api.lake.services.jobs.cancel(job.id)
    at_work = api.lake.services.optimizers.register(
        Registration(group="nightly", host="h", pid=1, version="0", protocol=PROTOCOL)
    )
    assert refused(api, "DELETE", "/nightly") == (409, "1 optimizers are registered in group nightly")
    api.lake.services.optimizers.unregister(at_work.id)
    assert api.http.delete(f"{GROUPS}/nightly").status_code == 204
