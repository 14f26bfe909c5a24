"""The tool that starts a maintenance job, after the assistant's user has agreed to it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field, JsonValue

from firn.client import Client
from firn.mcp.answers import Document, answers, shorten
from firn.mcp.reading import TableArg
from firn.protocol.answers.jobs import DryRunOut
from firn.protocol.jobs import JobKind

Kind = Annotated[JobKind, Field(description="The kind of the job.")]
Options = Annotated[
    Mapping[str, JsonValue], Field(description="Options of the kind, such as {'strategy': 'sort'} of a rewrite.")
]
_UNPLANNED = (JobKind.REMOVE_ORPHANS,)
"""Kinds whose dry run is a job itself, because it has to list all files."""


class Agreement(BaseModel):
    """What the user is asked."""

    start: bool = Field(title="Start this job", description="Firn starts the job only if this is true.")


@answers
def ask(ctx: Context[Client], table: str, kind: JobKind, options: Mapping[str, JsonValue] | None = None) -> Any:
    """Ask the user for the job. Raises ToolError where the assistant's program has no way to ask.

    If what the job would change differs by the time the answer arrives, the person is asked again.
    """
    if not _can_ask(ctx):
        raise ToolError(
            "This program cannot ask its user, so no job is started.\n"
            f"What to do: the user can run: {_format_command(table, kind, options or {})}"
        )
    return Elicit(_format_question(_get_client(ctx), table, kind, options or {}), Agreement)


@answers
def start_job(
    ctx: Context[Client],
    table: TableArg,
    kind: Kind,
    agreement: Annotated[Agreement, Resolve(ask)],
    options: Options | None = None,
) -> Document:
    """Start a maintenance job on a table, once the user has agreed. show_job then tells how it goes."""
    # The agreement is no argument of the assistant: the protocol asks the person.
    if not agreement.start:
        raise ToolError("The user does not want this job. It was not started.")
    job = _get_client(ctx).tables[table].start_job(kind, **(options or {}))
    document: Document = shorten(job.json_value())
    return document


def _get_client(ctx: Context[Client]) -> Client:
    return ctx.request_context.lifespan_context


def _can_ask(ctx: Context[Client]) -> bool:
    capabilities = ctx.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _format_question(client: Client, table: str, kind: JobKind, options: Mapping[str, JsonValue]) -> str:
    """Ask for exactly one job. Texts of the assistant are shown as JSON, so that they cannot look like Firn's."""
    name = client.name(table)
    lines = [f"Start a job of kind {kind} on {json.dumps(str(name))}?"]
    if options:
        lines.append(f"Options: {json.dumps(dict(options), sort_keys=True)}")
    if kind in _UNPLANNED:
        lines.append("What it would change is not known before: it lists all files of the table.")
    else:
        planned = client.tables[table].dry_run(kind, **options)
        lines += _format_plan(planned) if isinstance(planned, DryRunOut) else []
    return "\n".join(lines)


def _format_plan(planned: DryRunOut) -> list[str]:
    about = "" if planned.exact else " (estimated)"
    affected = [f"- {items.count:,} {items.items}" for items in planned.affected]
    lines = [f"It would {planned.action}{about}.", *affected]
    return [*lines, "It would change nothing."] if planned.is_empty else lines


def _format_command(table: str, kind: JobKind, options: Mapping[str, JsonValue]) -> str:
    pairs = [f"{key}={json.dumps(value)}" for key, value in options.items()]
    return shlex.join(
        ["firn", "job", "start", table, str(kind), *(part for pair in pairs for part in ("--option", pair))]
    )
