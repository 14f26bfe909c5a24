"""The search over all catalogs: `client.search("gross amount")`."""

from __future__ import annotations

from collections.abc import Collection

from firn.protocol.search import SearchHit, SearchKind, SearchOut
from firn.transport import Json, Transport


def search(
    transport: Transport, text: str, *, kinds: Collection[SearchKind | str] = (), catalog: str | None, limit: int
) -> list[SearchHit]:
    """The hits for a text, the best first within each kind."""
    params: dict[str, Json] = {"q": text, "limit": limit}
    if kinds:
        params["kinds"] = [str(kind) for kind in kinds]
    if catalog is not None:
        params["catalog"] = catalog
    return SearchOut.model_validate(transport.get("/search", params)).hits
