"""Lists writers whose stored position contradicts their table. The list is for administrators; it changes nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from catalog.commits.position_check import find_position_problem
from catalog.errors import NotFound
from catalog.names import CatalogName
from catalog.ports.page import Page
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.tables.metadata_files import MetadataFiles

KINDS = (RelationKind.TABLE, RelationKind.CHANGE, RelationKind.QUARANTINE)
ADVICE = (
    "records may be missing or doubled: compare the table with its source. Restore the database from a backup, or "
    "fence the writer with `firn writer fence` and go on under another name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionProblem:
    """One writer of a table, change store or quarantine, and advice for an administrator."""

    table: str
    writer: str
    problem: str
    advice: str


def list_position_problems(
    database: Database, metadata: MetadataFiles, catalog: CatalogName, *, limit: int, cursor: str | None
) -> Page[PositionProblem]:
    """The problems of the next `limit` tables; a page may be empty before the last. Raises NoSuchCatalog."""
    with database.reading() as uow:
        uow.catalogs.get(catalog)
        page = uow.relations.list(catalog, None, KINDS, limit=limit, cursor=cursor)
    problems: list[PositionProblem] = []
    for relation in page.items:
        with suppress(NotFound):  # it was dropped meanwhile, or has no metadata file, and each load reports that
            problems += _check(database, metadata, relation)
    return Page(problems, page.next_cursor)


def _check(database: Database, metadata: MetadataFiles, listed: Relation) -> list[PositionProblem]:
    with database.reading() as uow:  # the table's pointer and its writers at one moment
        writers = uow.writers.list_all(listed.id)
        relation = uow.relations.get(listed.id) if writers else listed
    document = metadata.read(relation.metadata_location or "") if writers else {}
    problems = [(writer.name, find_position_problem(document, writer)) for writer in writers]
    table = str(relation.name)
    return [
        PositionProblem(table=table, writer=name, problem=problem, advice=ADVICE)
        for name, problem in problems
        if problem is not None
    ]
