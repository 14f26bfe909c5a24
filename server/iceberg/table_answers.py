"""Answers of the Iceberg REST catalog that hold a table: after a load, a creation or a commit, and repeated ones."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Response

from catalog.names import CatalogName, TableName
from catalog.scan.mode import build_planning_config
from catalog.tables.relation import RelationKind
from server.iceberg.clients import filter_config
from server.iceberg.credentials import (
    Delegation,
    loaded_with_access,
    tag_of,
)
from server.iceberg.idempotency import (
    StoredResult,
)
from server.iceberg.requests import (
    loaded_response,
)
from server.service.commit.commit_path import (
    raise_unknown_after_commit,
)
from server.service.services import Services
from server.service.tables.tables import Loaded


def is_keyed(services: Services, catalog: CatalogName, name: TableName) -> bool:
    """Whether a name is that of a keyed table, by the database alone."""
    located = services.database.locate(catalog, name)
    return located is not None and located.kind is RelationKind.KEYED


def load_image(services: Services, catalog: CatalogName, name: TableName) -> Loaded:
    """Load a keyed table after a commit that has changed it, whether or not that works."""
    with raise_unknown_after_commit():
        return services.images.load(catalog, name)


def answer_created(catalog: CatalogName, name: TableName, table: Loaded, delegation: Delegation) -> Response:
    """Answer with a created table, even if granting access to its files fails."""
    with raise_unknown_after_commit():
        return loaded_with_access(catalog, name, table, delegation.to(catalog, name))


def answer_loaded(name: TableName, loaded: Loaded) -> Response:
    """Answer with a table as it is after the request; the answer grants no access to its files."""
    etag = tag_of(name, loaded, None, "all")
    return loaded_response(loaded.metadata_location, loaded.text, etag=etag, config=filter_config(loaded.config))


def answer_again_by(
    services: Services,
    name: TableName,
    kind: RelationKind | None = None,
    answer: Callable[[Loaded], Response] | None = None,
) -> Callable[[StoredResult], Response]:
    """Load the table after a request, for its first answer and each repeated one.

    Without a kind it says nothing of the table's configuration: clients take that from loads, not from commits.
    """

    def loaded(locations: StoredResult) -> Response:
        with raise_unknown_after_commit():
            document = services.metadata.load(locations[0])
        config = {} if kind is None else build_planning_config(kind, document.parsed)
        then = Loaded(metadata_location=locations[0], text=document.text, config=config)
        return answer_loaded(name, then) if answer is None else answer(then)

    return loaded
