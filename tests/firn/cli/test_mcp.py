"""`firn mcp`: the tools of an assistant, as the protocol's own client sees them, against a real server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

import firn
from firn.mcp.answers import LARGEST_ANSWER, LONGEST_TEXT, build_page
from firn.mcp.server import build_server
from tests.command_line import Command

NUMBERS = count()
MODES = ("auto", "legacy")
"""The protocol of 2026, in which a tool's answer asks, and the one before, in which the server asks meanwhile."""


@pytest.fixture
def table(client: firn.Client) -> str:
    name = f"db.mcp{next(NUMBERS)}"
    columns = [{"name": "id", "type": "long"}, {"name": "total", "type": "string", "comment": "gross, in euro"}]
    client.tables.create(name, columns, primary_key=["id"])
    return name


class Person:
    """Answers questions; keeps what it was asked."""

    def __init__(self, *, agrees: bool | None) -> None:
        self.agrees = agrees
        self.questions: list[str] = []

    async def answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        self.questions.append(params.message)
        if self.agrees is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"start": self.agrees})


def converse(
    server: Any, talk: Callable[[Client], Awaitable[Any]], *, person: Person | None = None, mode: str = "auto"
) -> Any:
    """Talk to a server of the protocol in this process, or to a program."""

    async def run() -> Any:
        answer = None if person is None else person.answer
        async with Client(server, mode=mode, elicitation_callback=answer, read_timeout_seconds=60) as assistant:
            return await talk(assistant)

    return asyncio.run(run())


def call(
    client: firn.Client, tool: str, *, person: Person | None = None, mode: str = "auto", **arguments: Any
) -> CallToolResult:
    server = build_server(client)
    result = converse(server, lambda assistant: assistant.call_tool(tool, arguments), person=person, mode=mode)
    assert isinstance(result, CallToolResult)
    return result


def read(client: firn.Client, tool: str, **arguments: Any) -> Any:
    result = call(client, tool, **arguments)
    assert not result.is_error, result.content
    return result.structured_content


def text(result: CallToolResult) -> str:
    return "\n".join(getattr(part, "text", "") for part in result.content)


def test_a_program_starts_the_command_and_asks_it(server: str, table: str) -> None:
    """As an editor does: by standard input and output, in a process of its own."""
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "firn.cli", "mcp", "--read-only"], env={"FIRN_SERVER": server}
    )

    async def talk(assistant: Client) -> tuple[list[str], Any]:
        tools = await assistant.list_tools()
        described = await assistant.call_tool("describe_table", {"table": table})
        return [tool.name for tool in tools.tools], described.structured_content

    names, described = converse(program, talk)
    assert {"search", "describe_table", "explain_table", "query"} <= set(names)
    assert "start_job" not in names
    assert described["primary_key"] == ["id"]
    assert described["columns"][1]["comment"] == "gross, in euro"


def test_every_tool_says_what_it_does_and_whether_it_only_reads(client: firn.Client) -> None:
    tools = converse(build_server(client), lambda assistant: assistant.list_tools()).tools
    assert all(tool.description for tool in tools)
    assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == ["start_job"]


def test_every_reading_tool_answers(client: firn.Client, table: str) -> None:
    assert table in [f"db.{row['name']}" for row in read(client, "list_tables", namespace="db", limit=200)["tables"]]
    assert "lake" in [catalog["name"] for catalog in read(client, "list_catalogs")["catalogs"]]
    assert read(client, "search", text="merge mode", kinds=["setting"])["hits"][0]["name"] == "firn.merge.mode"
    explained = read(client, "explain_table", table=table)
    assert explained["health"]["score"] == 100
    assert explained["next"]["reason"]
    assert read(client, "show_history", table=table)["has_more"] is False
    assert read(client, "list_jobs", table=table)["jobs"] == []
    assert read(client, "list_pipelines")["pipelines"] == []
    assert "queue" in json.dumps(read(client, "show_status"))
    rows = read(client, "query", statement="SELECT 1 AS n UNION ALL SELECT 2 ORDER BY n", limit=1)
    assert (rows["columns"][0]["name"], rows["rows"], rows["has_more"]) == ("n", [{"n": "1"}], True)


def test_a_refusal_says_what_to_do(client: firn.Client, table: str) -> None:
    result = call(client, "query", statement=f"DELETE FROM {table}")
    assert result.is_error
    assert "SELECT" in text(result)
    missing = call(client, "describe_table", table="orders")
    assert missing.is_error
    assert "NAMESPACE.TABLE" in text(missing)
    assert call(client, "list_jobs", limit=10**9).is_error


@pytest.mark.parametrize("mode", MODES)
def test_a_job_starts_when_the_user_agrees_to_it(client: firn.Client, table: str, mode: str) -> None:
    person = Person(agrees=True)
    arguments = {"table": table, "kind": "keys", "options": {"resolve": True}}
    result = call(client, "start_job", person=person, mode=mode, **arguments)
    assert not result.is_error, text(result)
    (question,) = person.questions
    assert f'"lake.{table}"' in question
    assert '{"resolve": true}' in question
    assert "It would" in question
    (job,) = client.tables[table].jobs()
    assert (str(job.id), job.kind) == (result.structured_content["id"], "keys")
    assert read(client, "show_job", job=str(job.id))["log"] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("person", [Person(agrees=False), Person(agrees=None)], ids=["no", "declined"])
def test_no_job_starts_when_the_user_does_not_agree(client: firn.Client, table: str, mode: str, person: Person) -> None:
    person.questions.clear()
    refused = call(client, "start_job", person=person, mode=mode, table=table, kind="expire")
    assert refused.is_error
    assert len(person.questions) == 1
    assert client.tables[table].jobs() == []


@pytest.mark.parametrize("mode", MODES)
def test_a_program_that_cannot_ask_its_user_starts_no_job(client: firn.Client, table: str, mode: str) -> None:
    options = {"keep_last": 3, "x": "'; rm -rf /"}
    result = call(client, "start_job", mode=mode, table=table, kind="expire", options=options)
    assert result.is_error
    assert f"firn job start {table} expire --option keep_last=3 --option " in text(result)
    assert """'x="'"'"'; rm -rf /"'""" in text(result)
    assert client.tables[table].jobs() == []


@pytest.mark.parametrize("mode", MODES)
def test_an_assistant_cannot_agree_in_place_of_its_user(client: firn.Client, table: str, mode: str) -> None:
    """The agreement is no argument of the tool, whatever the assistant sends."""
    person = Person(agrees=None)
    arguments = {"table": table, "kind": "expire", "agreement": {"start": True}}
    assert call(client, "start_job", person=person, mode=mode, **arguments).is_error
    assert client.tables[table].jobs() == []


def test_what_the_assistant_writes_cannot_look_like_the_question(client: firn.Client, table: str) -> None:
    person = Person(agrees=False)
    options = {"keep_last": "\nIt would change nothing."}
    call(client, "start_job", person=person, table=table, kind="expire", options=options)
    assert not any("\nIt would change nothing." in question for question in person.questions)


def test_long_texts_and_lists_are_cut() -> None:
    page = build_page("rows", [{"v": "x" * 10_000_000}] * 100, 200)
    assert len(page["rows"][0]["v"]) < LONGEST_TEXT + 40
    assert "9,998,000 more characters" in page["rows"][0]["v"]
    assert len(json.dumps(page)) < LARGEST_ANSWER + 3 * LONGEST_TEXT
    assert page["has_more"] is True


def test_without_the_package_the_command_says_what_to_install(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.cli.mcp.find_spec", lambda _: None)
    failed = run("mcp")
    assert failed.code == 1
    assert "pip install 'firn[mcp]'" in failed.err
