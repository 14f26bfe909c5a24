"""`firn search`: tables, columns, comments, jobs and more by a word, over all catalogs."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.protocol.search import SearchHit, SearchKind


def add_to(app: typer.Typer) -> None:
    """Add `firn search`."""
    command(app, "search")(search)


def search(
    ctx: CliContext,
    text: Annotated[list[str], typer.Argument(help="Words, or beginnings of words.")],
    *,
    kind: Annotated[list[SearchKind] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    only: Annotated[str | None, typer.Option("--in", help="Only this catalog; without it, all.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="The largest number of hits of each kind.")] = 10,
) -> None:
    """Find tables, columns, comments, labels, owners, jobs, pipelines, saved queries, groups and settings.

    Each word has to begin a word of a name, a column, a comment, a label or an owner; label:pii finds labels only.
    A job is also found by the beginning of its id.
    """
    hits = ctx.client.search(" ".join(text), kinds=kind or (), catalog=only, limit=limit)
    rows = [(_name_kind(hit), hit.catalog or "", hit.name, _describe(hit)) for hit in hits]
    none = "nothing matches"
    ctx.show.emit(
        [hit.model_dump(mode="json") for hit in hits],
        lambda: ctx.show.table(("kind", "catalog", "name", "match"), rows, none=none),
    )


def _name_kind(hit: SearchHit) -> str:
    return hit.kind.replace("_", " ")


def _describe(hit: SearchHit) -> str:
    return ", ".join(part for part in (hit.text, hit.id if hit.kind is SearchKind.JOB else "", hit.detail) if part)
