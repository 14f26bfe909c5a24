"""Answers a search over all catalogs: tables from the index, and the fewer objects that have tables of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from catalog.access.privileges import SERVER, PrincipalId, Privilege, Securable
from catalog.jobs.job import Job
from catalog.names import CatalogName, RelationId
from catalog.policy.settings import SETTINGS
from catalog.ports.store import Database, UnitOfWork
from catalog.search.document import DocumentKind, Texts, clean_text
from catalog.search.matching import Match, Rank, Typed, match_name, match_text, match_texts
from catalog.tables.description import LABEL, read_description
from firn.protocol.names import join_name
from firn.protocol.search import SearchHit, SearchKind, SearchPart
from server.service.access.visibility import Visibility
from server.service.search.table_search import RankedHit, TableSearch

_MOST_FOUND = 200
"""Pipelines, saved queries and jobs that a search compares with the caller's rights."""
_MOST_NAMESPACES = 1_000
_TABLES_WITH_JOBS = 5
"""Tables with the best names, whose jobs a search shows."""
_SHORTEST_ID = 4
"""Characters of a job's id by which a search finds it."""
_UUID_DIGITS = 32
_OF_TABLES = {
    SearchKind.TABLE: DocumentKind.TABLE,
    SearchKind.VIEW: DocumentKind.VIEW,
    SearchKind.HIVE_TABLE: DocumentKind.HIVE_TABLE,
}
_WITHOUT_LABELS = frozenset(
    {SearchKind.PIPELINE, SearchKind.QUERY, SearchKind.JOB, SearchKind.GROUP, SearchKind.SETTING}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What somebody searches, and what they may see."""

    text: str
    visible: Visibility
    owner: PrincipalId | None
    """The owner of the saved queries that are not shared."""
    kinds: Collection[SearchKind] = tuple(SearchKind)
    catalog: CatalogName | None = None
    """The only catalog to search; None means all, with the objects of no catalog."""
    limit: int = 10
    """Hits of each kind; matches of columns and comments count on their own."""


@dataclass(frozen=True)
class Search:
    """Searches names, columns, owners, labels, comments, jobs, pipelines, saved queries, groups and policy settings."""

    database: Database

    def run(self, request: SearchRequest) -> list[SearchHit]:
        """The best hits of each kind. A text without letters and digits finds nothing."""
        typed = Typed.parse(request.text)
        if not typed.index_words:
            return []
        if typed.labels:
            request = replace(request, kinds=[kind for kind in request.kinds if kind not in _WITHOUT_LABELS])
        with self.database.reading() as uow:
            tables = self._search_tables(uow, request, typed)
            hits = [*tables, *_search_others(uow, request, typed), *_search_jobs(uow, request, typed, tables)]
        return _keep_best(hits, request)

    def _search_tables(self, uow: UnitOfWork, request: SearchRequest, typed: Typed) -> list[RankedHit]:
        kinds = set(request.kinds) | ({SearchKind.TABLE} if SearchKind.JOB in request.kinds else set())
        documents = [document for kind, document in _OF_TABLES.items() if kind in kinds]
        search = TableSearch(uow=uow, typed=typed, visible=request.visible, kinds=documents, catalog=request.catalog)
        return sorted(search.run(), key=lambda ranked: ranked.order)


def _keep_best(hits: Sequence[RankedHit], request: SearchRequest) -> list[SearchHit]:
    """The first hits of each kind, in the order of kinds; columns and comments come after names."""
    kept: list[SearchHit] = []
    for kind in SearchKind:
        if kind not in request.kinds:
            continue
        of_kind = sorted((hit for hit in hits if hit.hit.kind is kind), key=lambda ranked: ranked.order)
        by_name = [ranked.hit for ranked in of_kind if ranked.rank < Rank.COLUMN]
        by_text = [ranked.hit for ranked in of_kind if ranked.rank >= Rank.COLUMN]
        kept += by_name[: request.limit] + by_text[: request.limit]
    return kept


def _search_others(uow: UnitOfWork, request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    finders: dict[SearchKind, Callable[[UnitOfWork, SearchRequest, Typed], Iterator[RankedHit]]] = {
        SearchKind.NAMESPACE: _search_namespaces,
        SearchKind.CATALOG: _search_catalogs,
        SearchKind.PIPELINE: _search_pipelines,
        SearchKind.QUERY: _search_queries,
        SearchKind.GROUP: _search_groups,
        SearchKind.SETTING: _search_settings,
    }
    for kind, find in finders.items():
        if kind in request.kinds:
            yield from find(uow, request, typed)


def _search_namespaces(uow: UnitOfWork, request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    texts = [text for text in (*typed.words, *(LABEL + label for label in typed.labels)) if text.isascii()]
    for space in uow.searched_objects.namespaces(texts, limit=_MOST_NAMESPACES):
        if request.catalog in (None, space.catalog) and request.visible.namespace(space.catalog, space.namespace):
            name = join_name(space.namespace)
            match = _match_described(typed, name, space.namespace[-1], space.properties)
            if match is not None:
                yield _hit(SearchKind.NAMESPACE, name, match, catalog=space.catalog)


def _search_catalogs(uow: UnitOfWork, request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    for catalog in uow.catalogs.list():
        if request.catalog in (None, catalog.name) and request.visible.catalog(catalog.name):
            match = _match_described(typed, catalog.name, catalog.name, catalog.properties)
            if match is not None:
                yield _hit(SearchKind.CATALOG, catalog.name, match, catalog=catalog.name)


def _match_described(typed: Typed, full_name: str, name: str, properties: Mapping[str, str]) -> Match | None:
    """Match the name, or else what the properties say of the object."""
    description = read_description(properties)
    texts = Texts(
        comment=clean_text(description.comment), owner=clean_text(description.owner), labels=description.labels
    )
    by_name = None if typed.labels else match_name(typed, full_name, name)
    return by_name or match_texts(typed, full_name, texts)


def _search_pipelines(uow: UnitOfWork, request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    pipelines = uow.searched_objects.pipelines(typed.words, limit=_MOST_FOUND)
    tables = uow.pipelines.tables_of([pipeline.id for pipeline in pipelines])
    for pipeline in pipelines:
        readable = all(
            request.visible.readable(Securable.of(table.catalog, table.name)) for table in tables[pipeline.id]
        )
        if readable and request.catalog in (None, pipeline.catalog):
            yield _hit(SearchKind.PIPELINE, pipeline.name, _by_name(typed, pipeline.name), catalog=pipeline.catalog)


def _search_queries(uow: UnitOfWork, request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    for saved in uow.searched_objects.saved_queries(request.owner, typed.words, limit=_MOST_FOUND):
        match = match_name(typed, saved.name, saved.name) or match_text(typed, SearchPart.STATEMENT, saved.statement)
        if request.catalog in (None, saved.catalog):
            match = match or _by_name(typed, saved.name)
            yield _hit(SearchKind.QUERY, saved.name, match, catalog=CatalogName(saved.catalog), id=str(saved.id))


def _search_groups(uow: UnitOfWork, request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    rights = request.visible.rights
    if request.catalog is not None or not (rights is None or rights.has(Privilege.LIST, SERVER)):
        return
    for group in uow.groups.list():
        match = match_name(typed, group.name, group.name)
        match = match or match_text(typed, SearchPart.DESCRIPTION, f"{group.name} {group.description}")
        if match is not None:
            yield _hit(SearchKind.GROUP, group.name, match)


def _search_settings(_uow: UnitOfWork, _request: SearchRequest, typed: Typed) -> Iterator[RankedHit]:
    for setting in SETTINGS.values():
        match = match_name(typed, setting.key, setting.key) or match_text(typed, SearchPart.DESCRIPTION, setting.does)
        if match is not None:
            yield _hit(SearchKind.SETTING, setting.key, match)


def _search_jobs(
    uow: UnitOfWork, request: SearchRequest, typed: Typed, tables: Sequence[RankedHit]
) -> Iterator[RankedHit]:
    """Find jobs by the beginning of their id, and the newest jobs of the tables whose names match best."""
    if SearchKind.JOB not in request.kinds:
        return
    for job in _find_jobs_by_id(uow, typed.text):
        if _may_see(request, job):
            yield _job_hit(job, Match(rank=Rank.EXACT, part=SearchPart.ID))
    named = [ranked.hit for ranked in tables if ranked.rank <= Rank.NAME and ranked.hit.kind is SearchKind.TABLE]
    ids = [RelationId(UUID(hit.id)) for hit in named[:_TABLES_WITH_JOBS]]
    for job in uow.searched_objects.jobs_of(ids, limit=request.limit):
        if _may_see(request, job):
            yield _job_hit(job, Match(rank=Rank.NAME, part=SearchPart.TABLE))


def _find_jobs_by_id(uow: UnitOfWork, text: str) -> Sequence[Job]:
    digits = text.replace("-", "")
    is_id = _SHORTEST_ID <= len(digits) <= _UUID_DIGITS and all(digit in "0123456789abcdef" for digit in digits)
    if not is_id:
        return []
    lowest, highest = (UUID(digits.ljust(_UUID_DIGITS, fill)) for fill in "0f")
    return uow.searched_objects.jobs_by_id(lowest, highest, limit=_MOST_FOUND)


def _may_see(request: SearchRequest, job: Job) -> bool:
    readable = request.visible.readable(Securable.of(job.catalog, job.table))
    return readable and request.catalog in (None, job.catalog)


def _job_hit(job: Job, match: Match) -> RankedHit:
    detail = f"{job.kind}, {job.status}"
    return _hit(SearchKind.JOB, str(job.table), match, catalog=job.catalog, id=str(job.id), detail=detail)


def _by_name(typed: Typed, name: str) -> Match:
    """The match of a name that the database has found, if only by a part of a word."""
    return match_name(typed, name, name) or Match(rank=Rank.FULL_NAME, part=SearchPart.NAME)


def _hit(
    kind: SearchKind,
    name: str,
    match: Match,
    *,
    catalog: CatalogName | None = None,
    id: str | None = None,
    detail: str = "",
) -> RankedHit:
    hit = SearchHit(kind=kind, catalog=catalog, name=name, id=id, part=match.part, text=match.text, detail=detail)
    return RankedHit(match.rank, hit)
