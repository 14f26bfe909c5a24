"""The search over all catalogs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from catalog.names import CatalogName
from catalog.search.words import LONGEST_TYPED
from firn.protocol.search import SearchKind, SearchOut
from server.api.deps import ServicesDep, VisibilityDep, get_caller
from server.service.search.search import SearchRequest

router = APIRouter(tags=["search"])
MOST_HITS = 50


@router.get("/search", summary="Search all catalogs")
def search(
    services: ServicesDep,
    visible: VisibilityDep,
    request: Request,
    q: Annotated[str, Query(max_length=LONGEST_TYPED, description="words, or beginnings of words")],
    kinds: Annotated[list[SearchKind] | None, Query(description="the kinds to search; without it, all")] = None,
    catalog: Annotated[str | None, Query(max_length=255, description="the only catalog to search")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_HITS, description="hits of each kind")] = 10,
) -> SearchOut:
    """Find tables, columns, comments, labels, owners, jobs, pipelines, saved queries, groups and settings.

    Each word has to begin a word of the name, a column, a comment, a label or an owner. The answer has only what the
    caller may see.
    """
    caller = get_caller(request)
    wanted = SearchRequest(
        text=q,
        visible=visible,
        owner=None if caller is None else caller.principal.id,
        kinds=kinds or tuple(SearchKind),
        catalog=None if catalog is None else CatalogName(catalog),
        limit=limit,
    )
    return SearchOut(hits=services.search.run(wanted))
