"""`firn token`, `role`, `user`, `service`, `audit`, `whoami`, against a server with access control."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.server.mcpserver.exceptions import ToolError

import firn
from firn.cli import roles, tokens
from firn.errors import Invalid, NotFound, Refused, Unauthenticated
from firn.mcp.server import build_server
from tests.command_line import Command, CommandOutput, serving


def printed(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access") / "data"


@pytest.fixture(scope="module")
def admin(data_dir: Path) -> str:
    return printed("server", "--data-dir", str(data_dir), "--first-admin-token")


@pytest.fixture(scope="module")
def url(data_dir: Path, admin: str) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FIRN_ACCESS__ENABLED", "true")
        with serving(data_dir) as (address, _):
            yield address


@pytest.fixture
def run(url: str) -> Command:
    return Command(url)


@pytest.fixture
def as_admin(url: str, admin: str) -> Command:
    return Command(url, admin)


def done(output: CommandOutput) -> CommandOutput:
    assert output.code == 0, output.err
    return output


def test_without_a_token_commands_say_what_to_do(run: Command) -> None:
    output = run("catalog", "list")
    assert output.code == 1
    assert "--token" in output.err


def test_an_assistant_has_the_rights_of_its_token(url: str, admin: str) -> None:
    """A service without roles has no privilege: its assistant is refused a table, by each way to read it."""
    with firn.connect(url, token=admin) as client:
        client.tables.create("assisted.orders", [{"name": "id", "type": "long"}])
        client.access.create_service("assistant")
        token = client.access.create_token("assistant", owner="assistant")["token"]
    with firn.connect(url, token=token) as limited:
        with pytest.raises(ToolError, match=r"privilege|exist"):
            asyncio.run(build_server(limited).call_tool("describe_table", {"table": "assisted.orders"}))
        with pytest.raises(ToolError, match=r"privilege|exist"):
            asyncio.run(build_server(limited).call_tool("query", {"statement": "SELECT * FROM assisted.orders"}))
    with firn.connect(url, token=admin) as client:
        client.access.drop("services", "assistant")


def test_the_library_takes_a_namespace_by_its_levels_and_as_people_type_it(url: str, admin: str) -> None:
    with firn.connect(url, token=admin) as client:
        client.access.create_role("typed")
        for namespace in ("sales", "sales.`eu.west`", ["sales", "eu.west"]):
            client.access.grant("typed", ["read"], catalog="lake", namespace=namespace)
        granted = {tuple(grant["on"]["namespace"]) for grant in client.access.role("typed")["grants"]}
        assert granted == {("sales",), ("sales", "eu.west")}
        client.access.drop_role("typed")


def test_a_launch_for_yarn_is_tried_set_and_taken_back(as_admin: Command) -> None:
    yarn = (
        "--kind",
        "spark-submit",
        "--set",
        "master=yarn",
        "--set",
        "queue=etl",
        "--set",
        "jars=hdfs:///a.jar,hdfs:///b.jar",
    )
    tried = as_admin("group", "launch", "default", *yarn, "--env", "A=it's", "--conf", "spark.password=p", "--dry-run")
    assert tried.code == 0
    assert " --master yarn --deploy-mode client " in tried.out
    assert " --jars hdfs:///a.jar,hdfs:///b.jar " in tried.out
    assert """A='it'"'"'s' \\""" in tried.out
    assert "spark.yarn.queue=etl\n" in tried.out
    assert "spark.password=(hidden)\n" in tried.out
    assert as_admin("group", "launch", "default", "--json").json["queue"] is None
    assert "queue       etl" in as_admin("group", "launch", "default", *yarn).out
    removed = as_admin("group", "launch", "default", "--set", "queue=", "--set", "jars=", "--json").json
    assert (removed["queue"], removed["jars"]) == (None, [])
    hostile = as_admin("group", "launch", "default", "--set", "queue=a --conf spark.b=c")
    assert (hostile.code, "is no queue of YARN" in hostile.err) == (2, True)
    as_admin("group", "launch", "default", "--kind", "none", "--set", "master=local[*]")


def test_a_groups_launch_is_set_piece_by_piece_and_scaled(as_admin: Command) -> None:
    group = as_admin("group", "launch", "default", "--kind", "local", "--conf", "spark.a=b=c", "--json").json
    assert (group["kind"], group["conf"], group["scaling"]["minimum"]) == ("local", {"spark.a": "b=c"}, 0)
    three = ("--set", "memory=3g", "--set", "idle_seconds=3")
    assert as_admin("group", "launch", "default", *three, "--json").json["conf"] == {"spark.a": "b=c"}
    scaled = as_admin("group", "scale", "default", "--min", "0", "--max", "7", "--json").json
    assert (scaled["scaling"]["maximum"], scaled["scaling"]["idle_seconds"], scaled["memory"]) == (7, 3, "3g")
    assert "0 to 7" in as_admin("group", "launch", "default").out
    refused = as_admin("group", "scale", "default", "--min", "2", "--max", "1")
    assert (refused.code, "bounds rise" in refused.err) == (2, True)
    assert as_admin("group", "launch", "default", "--kind", "none", "--json").json["wanted"] == 0


def test_the_list_says_how_many_optimizers_the_server_keeps_and_how_many_there_are(as_admin: Command) -> None:
    assert "by users" in as_admin("group", "list").out
    as_admin("group", "launch", "default", "--kind", "local")
    output = as_admin("group", "list").out
    as_admin("group", "launch", "default", "--kind", "none")
    assert "0 of 0 wanted" in output


def test_a_role_is_made_granted_given_and_does_what_it_says(run: Command, url: str, admin: str) -> None:
    as_admin = ("--token", admin)
    done(run("table", "create", "sales.orders", "--columns", "id long", *as_admin))
    done(run("table", "create", "finance.rates", "--columns", "id long", *as_admin))
    done(run("role", "create", "analysts", "--description", "readers", *as_admin))
    done(run("role", "grant", "analysts", "read", "--on", "namespace:lake.sales", *as_admin))
    done(run("user", "create", "ada", *as_admin))
    done(run("role", "assign", "analysts", "ada", *as_admin))
    assert "ada" in done(run("role", "show", "analysts", *as_admin)).out
    token = done(run("token", "create", "test", "--owner", "ada", "--expires-in", "1h", *as_admin)).out.strip()
    me = done(run("whoami", "--json", "--token", token)).json
    assert (me["name"], me["roles"], me["admin"]) == ("ada", ["analysts"], False)
    with firn.connect(url, token=token) as client:
        assert [table.name for table in client.tables.list()] == ["orders"]
        with pytest.raises(NotFound):
            client.tables["finance.rates"].show()
        with pytest.raises(Refused, match="ada may not drop"):
            client.tables["sales.orders"].drop()
        with pytest.raises(Refused, match="may not"):
            client.access.create_role("mine")
    refused = done(run("audit", "--by", "ada", "--verdict", "forbidden", "--json", *as_admin)).json
    assert {"lake.sales.orders", "role mine"} == {refusal["target"] for refusal in refused}
    listed = done(run("token", "list", "--owner", "ada", "--json", *as_admin)).json
    done(run("token", "revoke", listed[0]["id"], *as_admin))
    with firn.connect(url, token=token) as client, pytest.raises(Unauthenticated):
        client.catalogs.list()
    done(run("role", "revoke", "analysts", "read", "--on", "namespace:lake.sales", *as_admin))
    done(run("role", "drop", "analysts", *as_admin))
    assert done(run("user", "show", "ada", "--json", *as_admin)).json["roles"] == []
    done(run("user", "disable", "ada", *as_admin))
    done(run("user", "drop", "ada", *as_admin))


def test_a_service_has_a_secret_that_is_printed_and_can_be_changed(run: Command, admin: str) -> None:
    first = done(run("service", "create", "etl", "--token", admin)).out.strip()
    second = done(run("service", "new-secret", "etl", "--token", admin)).out.strip()
    assert first != second
    assert first.startswith("etl:firn_")
    assert [account["name"] for account in done(run("service", "list", "--json", "--token", admin)).json] == ["etl"]


def test_a_lost_admin_token_is_replaced_while_the_server_runs(run: Command, data_dir: Path) -> None:
    token = done(run.apart("token", "reset-admin", "--data-dir", str(data_dir))).out.strip()
    assert done(run("whoami", "--json", "--token", token)).json["admin"]


def test_an_operator_makes_an_optimizers_token_without_another_one(run: Command, data_dir: Path) -> None:
    flags = ("--token-for", "local-optimizer", "--role", "optimizer")
    first = printed("server", "--data-dir", str(data_dir), *flags)
    token = printed("server", "--data-dir", str(data_dir), *flags)
    assert token != first
    assert done(run("whoami", "--json", "--token", token)).json["roles"] == ["optimizer"]
    assert done(run("optimizer", "list", "--json", "--token", token)).json == []


@pytest.mark.parametrize("text", ["lake", "catalog:", "table:lake.t", "namespace:lake", "table:lake..t", "server:x"])
def test_a_scope_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a scope"):
        roles.parse_scope(text)


@pytest.mark.parametrize("text", ["", "1", "0d", "d", "1w", "-1d"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a duration"):
        tokens.parse_lifetime(text)
