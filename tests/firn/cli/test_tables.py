"""`firn table`, `catalog`, `job`, `policy`: what they do, print and end with."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import firn
from firn.transport import Transport
from tests.command_line import Command

NUMBERS = count()
COLUMNS = "id bigint, day date 'when', amount decimal(10,2), tags array<string>, m map<string, int>"


@pytest.fixture
def keyed(client: firn.Client) -> str:
    name = f"db.t{next(NUMBERS)}"
    columns = [{"name": "id", "type": "long"}, {"name": "day", "type": "date"}]
    client.tables.create(name, columns, primary_key=["id"], partition_by=["day"])
    return name


def test_a_created_table_is_what_was_asked_for(run: Command) -> None:
    created = run(
        "table",
        "create",
        "made.orders",
        "--columns",
        COLUMNS,
        "--primary-key",
        "id",
        "--sequence-field",
        "day",
        "--partition-by",
        "bucket(4, id)",
        "--property",
        "firn.merge.mode=vectors",
        "--json",
    )
    assert created.code == 0, created.err
    table = run("table", "show", "made.orders", "--json").json
    assert (table["kind"], table["primary_key"], table["sequence_field"]) == ("keyed", ["id"], "day")
    assert [(column["name"], column["type"]) for column in table["columns"]] == [
        ("id", "long"),
        ("day", "date"),
        ("amount", "decimal(10, 2)"),
        ("tags", "list<string>"),
        ("m", "map<string, int>"),
    ]
    assert table["columns"][1]["comment"] == "when"
    assert table["partition_by"] == ["bucket(4, id)"]
    assert table["properties"]["firn.merge.mode"] == "vectors"


def test_a_table_like_another_has_its_columns_and_partitions(run: Command, keyed: str) -> None:
    assert run("table", "create", f"{keyed}_like", "--like", f"lake.{keyed}").code == 0
    like = run("table", "show", f"{keyed}_like", "--json").json
    assert (like["kind"], like["partition_by"]) == ("plain", ["day"])
    assert [column["name"] for column in like["columns"]] == ["id", "day"]


def test_columns_come_from_a_create_statement_in_a_file(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "orders.sql"
    file.write_text(
        "-- orders\nCREATE TABLE x (\n `order id` BIGINT NOT NULL COMMENT 'the id',\n v STRING)\nUSING iceberg"
    )
    assert run("table", "create", "made.from_file", "--schema", str(file)).code == 0
    columns = run("table", "show", "made.from_file", "--json").json["columns"]
    assert [(column["name"], column["type"], column["comment"]) for column in columns] == [
        ("order id", "long", "the id"),
        ("v", "string", None),
    ]


def test_a_list_of_a_namespace_that_is_not_there_says_so(run: Command, client: firn.Client) -> None:
    client.namespaces.create("empty")
    assert run("table", "list", "empty").out.strip() == "no tables in lake.empty"
    for output in (run("table", "list", "nowhere"), run("table", "list", "nowhere", "--json")):
        assert (output.code, output.out) == (1, "")
        assert "Namespace does not exist: nowhere" in output.err
    assert run("namespace", "list", "nowhere").code == 1


def test_lists_are_whole_in_json_and_plain_in_pipes(run: Command, keyed: str) -> None:
    listed = run("table", "list", "db", "--json").json
    assert keyed.removeprefix("db.") in [relation["name"] for relation in listed]
    shown = run("table", "list", "db")
    assert keyed in shown.out
    assert "\x1b" not in shown.out


def test_a_list_that_is_cut_says_so(run: Command) -> None:
    for name in ("a", "b"):
        run("table", "create", f"cut.{name}", "--columns", "id long")
    cut = run("table", "list", "cut", "--limit", "1", "--json")
    assert [listed_table["name"] for listed_table in cut.json] == ["a"]
    assert cut.err == "only the first 1; --limit shows more\n"
    assert not run("table", "list", "cut", "--limit", "2").err
    assert len(run("table", "history", "cut.a", "--limit", "1", "--json").json) == 1


def test_what_is_shown_for_people(run: Command, keyed: str) -> None:
    shown = run("table", "show", keyed).out
    assert f"lake.{keyed}" in shown
    assert "base" in shown
    assert "change" in shown
    reason = run("table", "explain", keyed)
    assert reason.code == 0
    assert reason.out.startswith("nothing is due: nothing pending")
    assert run("table", "snapshots", keyed).out == "no snapshots yet\n"
    assert run("table", "files", keyed).out == "no files\n"
    assert "create" in run("table", "history", keyed).out
    assert run("table", "history", keyed, "--json", "--limit", "1").json[0]["table"].startswith(keyed)


def test_a_dry_run_is_refused_where_the_run_would_be(run: Command) -> None:
    run("table", "create", "dry.plain", "--columns", "id long")
    for kind in ("merge", "clean"):
        requested, tried = run("table", kind, "dry.plain"), run("table", kind, "dry.plain", "--dry-run")
        assert requested.code == tried.code == 2
        assert "plain table: it takes expire, remove-orphans, rewrite, rewrite-deletes" in tried.err


def test_a_store_is_not_dropped_alone_and_the_whole_is_named(run: Command) -> None:
    run("table", "create", "alone.t", "--columns", "id long", "--primary-key", "id")
    output = run("table", "drop", "alone.t.change")
    assert output.code == 1
    assert "alone.t.change is a store of the keyed table alone.t" in output.err
    assert run("table", "show", "alone.t").code == 0


def test_a_dry_run_says_what_a_job_would_do_and_plans_none(run: Command, keyed: str) -> None:
    output = run("table", "merge", keyed, "--dry-run")
    assert output.out == "would merge nothing: no change is pending\n"
    assert run("job", "list", "--table", keyed, "--json").json == []


def test_a_dry_run_is_of_the_job_that_was_asked_for(run: Command, keyed: str) -> None:
    ordered = run("table", "rewrite", keyed, "--strategy", "sort", "--sort-by", "id", "--all", "--dry-run")
    assert ordered.out.startswith("would have nothing to do\n")
    for options, reason in (
        (["--sort-by", "id"], "the strategy does not sort"),
        (["--where", ""], "the condition is empty"),
        (["--strategy", "sort", "--sort-by", "nonsense"], "no such column"),
    ):
        refused = run("table", "rewrite", keyed, *options, "--dry-run")
        assert (refused.code, reason in refused.err) == (2, True), refused.err
    assert run("table", "merge", keyed, "--mode", "vectors", "--dry-run").code == 0


def test_jobs_that_change_files_are_asked_for_with_their_choices(run: Command, keyed: str) -> None:
    options = ["--strategy", "sort", "--sort-by", "a, b", "--where", "a > 1", "--all"]
    job = run("table", "rewrite", keyed, *options, "--no-wait", "--json").json
    wanted = {"strategy": "sort", "sort_order": ["a", "b"], "filter": "a > 1", "everything": True}
    assert {key: job["params"][key] for key in wanted} == wanted
    run("job", "cancel", job["id"])
    refused = run("table", "rewrite", keyed, "--sort-by", "a", "--no-wait")
    assert refused.code == 2
    assert "the strategy does not sort" in refused.err
    for kind in ("compact", "rewrite-deletes", "rewrite-manifests"):
        job = run("table", kind, keyed, "--no-wait", "--json").json
        assert (job["kind"], job["status"]) == (kind, "pending")
        run("job", "cancel", job["id"])


def test_a_job_of_any_kind_is_started_with_its_options(run: Command, keyed: str) -> None:
    options = ["--option", "strategy=sort", "--option", 'sort_order=["id"]', "--option", "everything=true"]
    dry = run("job", "start", keyed, "rewrite", *options, "--dry-run")
    assert (dry.code, dry.out.splitlines()[0]) == (0, "would have nothing to do")
    job = run("job", "start", keyed, "rewrite", *options, "--no-wait", "--json").json
    wanted = {"strategy": "sort", "sort_order": ["id"], "everything": True}
    assert {key: job["params"][key] for key in wanted} == wanted
    run("job", "cancel", job["id"])
    for kind, reason in (("sync", "does not match any of the expected tags"), ("statistics", "Extra inputs")):
        refused = run("job", "start", keyed, kind, "--option", "sort_order=[]", "--no-wait")
        assert (refused.code, reason in refused.err) == (2, True), refused.err


def test_a_job_is_asked_for_shown_canceled_and_retried(run: Command, keyed: str) -> None:
    job = run("table", "rewrite", keyed, "--no-wait", "--json").json
    assert (job["status"], job["kind"]) == ("pending", "rewrite")
    again = run("table", "rewrite", keyed, "--no-wait")
    assert run("job", "show", job["id"]).out.startswith("job")
    assert run("job", "logs", job["id"], "--json").json == []
    assert run("job", "cancel", job["id"]).out == f"job {job['id']} is canceled\n"
    assert run("job", "cancel", job["id"]).out == f"job {job['id']} is canceled\n"
    retried = run("job", "retry", job["id"], "--no-wait", "--json")
    assert retried.json["status"] == "pending", again.err
    assert retried.json["id"] != job["id"]
    listed = run("job", "list", "--table", keyed, "--status", "canceled", "--json").json
    assert [listed_job["id"] for listed_job in listed] == [job["id"]]
    run("job", "cancel", retried.json["id"])


def test_properties_and_policy(run: Command, keyed: str) -> None:
    assert (
        run("table", "properties", keyed, "--set", "firn.merge.max-pending-rows=77", "--json").json[
            "firn.merge.max-pending-rows"
        ]
        == "77"
    )
    policy = {setting["key"]: setting for setting in run("policy", "show", keyed, "--json").json}
    assert policy["firn.merge.max-pending-rows"]["value"] == "77"
    assert policy["firn.merge.max-pending-rows"]["source"] == "table"
    assert run("policy", "set", "firn.merge.max-pending-commits=9", "--namespace", "db").code == 0
    policy = {setting["key"]: setting for setting in run("policy", "show", keyed, "--json").json}
    assert policy["firn.merge.max-pending-commits"]["value"] == "9"
    assert run("policy", "set", "firn.merge.max-pending-commits=", "--namespace", "db", "--json").json == {}
    dead = run("policy", "set", keyed, "merge.max-pending-rows=5")
    assert (dead.code, "did you mean firn.merge.max-pending-rows?" in dead.err) == (2, True)
    wrong = run("policy", "set", keyed, "firn.merge.max-pending-rows=lots")
    assert wrong.code == 2
    assert "lots" in wrong.err


def test_policy_is_shown_where_it_is_set(run: Command, keyed: str) -> None:
    assert run("policy", "set", "firn.merge.max-pending-rows=7").code == 0
    assert run("policy", "set", "firn.merge.max-pending-commits=9", "--namespace", "db").code == 0
    of_catalog = {setting["key"]: setting["source"] for setting in run("policy", "show", "--json").json}
    assert of_catalog["firn.merge.max-pending-rows"] == "catalog"
    assert of_catalog["firn.merge.max-pending-commits"] == "default"
    inherited = {
        setting["key"]: setting["source"] for setting in run("policy", "show", "--namespace", "db", "--json").json
    }
    assert inherited["firn.merge.max-pending-rows"] == "catalog"
    assert inherited["firn.merge.max-pending-commits"] == "namespace db"
    assert run("policy", "show", keyed, "--namespace", "db").code == 2
    assert run("policy", "set", "firn.merge.max-pending-rows=", "--json").json == {}
    assert run("policy", "set", "firn.merge.max-pending-commits=", "--namespace", "db", "--json").json == {}


def test_what_somebody_else_sets_meanwhile_stays(
    run: Command, client: firn.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Transport.change

    def overtaken(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(Transport, "change", real)
        client.catalogs.change_policy("lake", {"firn.merge.max-pending-rows": "5"})
        return real(*arguments, **named)

    monkeypatch.setattr(Transport, "change", overtaken)
    both = {"firn.merge.max-pending-rows": "5", "firn.merge.max-pending-commits": "3"}
    assert run("policy", "set", "firn.merge.max-pending-commits=3", "--json").json == both
    client.catalogs.change_policy("lake", {}, [*both])


def test_a_user_who_stops_waiting_reads_that_the_job_goes_on(
    run: Command, keyed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = run("table", "rewrite-manifests", keyed, "--timeout", "0")
    assert (output.code, "it continues" in output.err) == (3, True)
    job = run("job", "list", "--table", keyed, "--json").json[0]
    assert job["status"] == "pending"
    run("job", "cancel", job["id"])

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("firn.jobs.time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupted))
    output = run("job", "retry", job["id"])
    assert output.code not in (0, 1, 3)
    assert "continues; `firn job show` shows its progress" in output.err


def test_a_job_is_waited_for_however_long_it_takes(
    run: Command, client: firn.Client, keyed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    days, looks = count(step=86_400), count()

    def sleep(_seconds: float) -> None:
        if next(looks) == 3:
            client.jobs.cancel(client.tables[keyed].jobs()[0].id)

    monkeypatch.setattr("firn.jobs.time", SimpleNamespace(monotonic=lambda: next(days), sleep=sleep))
    output = run("table", "rewrite-manifests", keyed, "--json")
    assert (output.code, output.json["status"]) == (1, "canceled")


def test_catalogs_are_created_shown_and_dropped(run: Command, tmp_path: Path) -> None:
    assert run("catalog", "create", "second", "--warehouse", tmp_path.as_uri()).code == 0
    assert {"lake", "second"} <= {catalog["name"] for catalog in run("catalog", "list", "--json").json}
    assert "warehouse=second" in run("catalog", "show", "second").out
    assert run("table", "create", "second.db.t", "--columns", "id long").code == 0
    assert run("table", "list", "--catalog", "second", "--json").json[0]["name"] == "t"
    assert run("table", "show", "db.t", "--catalog", "second").code == 0
    not_empty = run("catalog", "drop", "second")
    assert not_empty.code == 1
    assert run("table", "drop", "second.db.t").code == 0
    assert run("table", "show", "second.db.t").code == 1


def test_a_dropped_table_is_gone(run: Command, keyed: str) -> None:
    output = run("table", "drop", keyed).out
    assert output.startswith(f"dropped lake.{keyed}; `firn table undrop` restores it until 20")
    assert output.endswith("; its files stay\n")
    assert run("table", "show", keyed).code == 1


def test_the_server_s_health_is_shown(run: Command) -> None:
    health = run("admin", "check", "--json")
    assert health.code == 0, health.out
    assert {"version", "database", "tasks", "misplaced", "hadoop", "positions"} <= health.json.keys()
    only = run("admin", "check", "--only", "hadoop", "--json")
    assert (only.code, only.json) == (0, {"hadoop": []})
    assert run("admin", "check", "--only", "hadoop").out == "no warehouse is on HDFS\n"
    assert run("optimizer", "list").out == "no optimizers: start one with `firn optimizer`\n"


def test_tables_columns_namespaces_and_catalogs_are_described(run: Command, keyed: str) -> None:
    done = run("table", "describe", keyed, "--comment", "One row an order", "--owner", "sales", "--label", "PII")
    assert done.code == 0, done.err
    assert run("table", "describe", keyed, "--column", "day", "--comment", "when it came", "--label", "time").code == 0
    shown = run("table", "describe", keyed, "--json").json
    assert (shown["comment"], shown["owner"], shown["labels"]) == ("One row an order", "sales", ["pii"])
    assert shown["columns"][1] == {"name": "day", "comment": "when it came", "labels": ["time"]}
    assert "when it came" in run("table", "describe", keyed, "--remove-label", "pii", "--owner", "").out
    assert run("table", "describe", keyed, "--json").json["owner"] is None
    assert run("namespace", "describe", "db", "--comment", "Shops", "--json").json["comment"] == "Shops"
    assert run("namespace", "describe", "db", "--json").json == {
        "namespace": "db",
        "comment": "Shops",
        "owner": None,
        "labels": [],
    }
    assert "platform" in run("catalog", "describe", "lake", "--owner", "platform").out
    wrong = run("table", "describe", keyed, "--column", "dya", "--comment", "x")
    assert wrong.code == 1
    assert "did you mean day?" in wrong.err
    assert "a column has no owner" in run("table", "describe", keyed, "--column", "day", "--owner", "x").err
    assert "invalid label" in run("table", "describe", keyed, "--label", "a b").err


def test_columns_have_figures_and_say_why_they_are_not_exact(run: Command, keyed: str, client: firn.Client) -> None:
    columns = run("table", "columns", keyed, "--json").json
    assert [(column["name"], column["nulls"], column["range_is"]) for column in columns["columns"]] == [
        ("id", 0, "exact"),
        ("day", 0, "exact"),
    ]
    assert "largest" in run("table", "columns", keyed).out
    assert client.tables[keyed].columns().files == 0


def test_a_namespace_in_the_place_of_a_table_is_refused_with_the_option_that_takes_it(run: Command) -> None:
    for args in (["set", "sales", "firn.merge.max-pending-rows=7"], ["show", "sales"]):
        refused = run("policy", *args)
        assert refused.code != 0
        assert "`--namespace sales`" in refused.err, refused.err


def test_without_access_control_users_roles_and_the_audit_log_say_that_they_have_no_effect(run: Command) -> None:
    for args in (["user", "create", "ada"], ["role", "create", "analysts"], ["audit"]):
        done = run(*args)
        assert done.code == 0, done.err
        assert "access control is off: " in done.err, args
    assert "access control" not in run("audit", "--json").err, "programs get no notes"
