"""Bad input and broken machines: one clear message, the right exit code, nothing done."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Command


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["table", "show", "db.missing"], 1, "db.missing"),
        (["table", "show", "missing"], 2, "NAMESPACE.TABLE"),
        (["table", "list", "--catalog", "nowhere"], 1, "nowhere"),
        (["catalog", "show", "nowhere"], 1, "nowhere"),
        (["table", "create", "bad.t"], 2, "--columns"),
        (["table", "create", "bad.t", "--columns", "id"], 2, "'id' is not a column"),
        (["table", "create", "bad.t", "--columns", "id nonsense"], 2, "nonsense"),
        (["table", "create", "bad.t", "--columns", "id long, id int"], 2, "named twice"),
        (["table", "create", "bad.t", "--columns", "id long", "--primary-key", "key"], 2, "no column 'key'"),
        (["table", "create", "bad.t", "--columns", "id double", "--primary-key", "id"], 2, "double"),
        (["table", "create", "bad.t", "--columns", "id long", "--partition-by", "fortnight(id)"], 2, "fortnight"),
        (["table", "create", "bad.t", "--columns", "id long", "--property", "x"], 2, "KEY=VALUE"),
        (["table", "create", "bad.t", "--schema", "/no/such/file.sql"], 2, "/no/such/file.sql"),
        (["table", "properties", "bad.t", "--set", "=x"], 2, "KEY=VALUE"),
        (["table", "merge", "bad.t", "--mode", "sideways"], 2, "sideways"),
        (["job", "show", "00000000-0000-0000-0000-000000000000"], 1, "00000000-0000-0000-0000-000000000000"),
        (["job", "show", "seven"], 2, "valid UUID"),
        (["job", "list", "--table", "db.t", "--status", "nonsense"], 2, "nonsense"),
        (["catalog", "create", "c", "--warehouse", "nonsense"], 2, "'nonsense' is no location of a warehouse"),
        (["catalog", "create", "c", "--warehouse", "file://elsewhere/x"], 2, "no directory of this machine"),
        (["catalog", "create", "c", "--warehouse", "/w", "--metastore", "localhost:9083"], 2, "thrift://HOST:PORT"),
        (["policy", "set", "firn.merge.max-pending-cows=7"], 2, "firn.merge.max-pending-rows"),
        (["policy", "set", "merge.max-pending-rows=5"], 2, "did you mean firn.merge.max-pending-rows?"),
        (["policy", "set", "color=blue"], 2, "color is no policy property"),
        (["policy", "set", "firn.merge.mode=auto", "--namespace", "nowhere"], 1, "nowhere"),
        (["policy", "set", "db.t", "firn.merge.mode=auto", "--namespace", "db"], 2, "exclude each other"),
        (["policy", "set", "db.t"], 2, "add at least one KEY=VALUE"),
        (["table", "create", "bad.t", "--columns", "id long", "--property", "firn.sequence_field=id"], 2, "unknown"),
        (["table", "list", "--server", "nonsense"], 2, "'nonsense' is no address"),
        (["table", "list", "--server", "ftp://127.0.0.1"], 2, "http://HOST:PORT"),
        (["table", "list", "--token", "ä"], 2, "--token"),
        (["hive", "check", "sales.orders"], 2, "metastore"),
        (["hive", "upgrade", "sales.*"], 2, "metastore"),
        (["hive", "upgrade", "sales.*", "--sequence-field", "ts"], 2, "--primary-key"),
        (["operation", "pause"], 2, "--batch"),
        (["operation", "resume", "00000000-0000-0000-0000-000000000000"], 1, "does not exist"),
        (["operation", "cancel", "--batch", "00000000-0000-0000-0000-000000000000"], 1, "does not exist"),
        (["sql", "--engine", "local-spark", "select 1", "--catalog", "nowhere"], 2, "nowhere"),
        (["sql", "drop table t"], 2, "DROP is not a query"),
        (["sql", "select 1", "--auto-sync", "data", "--engine", "instant"], 2, "does not sync"),
        (["table", "nonsense"], 2, "nonsense"),
        (["table", "list", "--limit", "0"], 2, "--limit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_and_refusals(run: Command, arguments: list[str], code: int, says: str) -> None:
    output = run(*arguments)
    assert (output.code, output.out) == (code, ""), output.err
    assert says in output.err


def test_nothing_is_left_of_refused_tables(run: Command) -> None:
    run("table", "create", "half.t", "--columns", "id double", "--primary-key", "id")
    assert run("table", "list", "half", "--json").json == []


def test_errors_are_json_for_programs(run: Command) -> None:
    output = run("table", "show", "db.missing", "--json")
    problem = json.loads(output.err)["error"]
    assert output.out == ""
    assert "db.missing" in problem["message"]
    assert problem["request_id"]


def test_no_server(run: Command, free_port: int) -> None:
    output = run("table", "list", "--server", f"http://127.0.0.1:{free_port}")
    assert (output.code, output.out) == (1, "")
    assert "no Firn server answers" in output.err
    assert "firn up" in output.err
