"""Port of the search index: documents, candidates for a typed text, and the position of the task that fills it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from catalog.access.privileges import PrincipalId, Securable
from catalog.jobs.job import Job
from catalog.names import CatalogName, Namespace, RelationId
from catalog.pipelines.pipeline import Pipeline
from catalog.queries.query import SavedQuery
from catalog.search.document import DocumentKind, SearchDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """Where a search looks: kinds of documents, and the objects in which the caller may see something."""

    kinds: Collection[DocumentKind]
    within: Sequence[Securable] | None
    """Catalogs, namespaces and tables; None is everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocument:
    """A candidate. Its texts are as old as the index; its object may have another name by now, or be gone."""

    kind: DocumentKind
    catalog: CatalogName
    key: str
    texts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNamespace:
    """A namespace that may match."""

    catalog: CatalogName
    namespace: Namespace
    properties: Mapping[str, str]


class SearchIndex(Protocol):
    """The documents of tables, views and Hive tables. Errors as in catalog.ports.store."""

    def put(self, documents: Sequence[SearchDocument]) -> int:
        """Store documents; returns how many differ from the stored ones, which are the ones that it writes."""

    def remove(self, kind: DocumentKind, catalog: CatalogName | None, keys: Collection[str]) -> None:
        """Remove documents by key; those of relations are found without their catalog."""

    def sources(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, str]:
        """The sources of the stored documents of relations."""

    def hive_digests(self, catalog: CatalogName, database: str) -> Mapping[str, str]:
        """The digests of the documents of one Hive database, by key."""

    def hive_databases(self, catalog: CatalogName) -> Collection[str]:
        """The Hive databases of a catalog that have documents."""

    def hive_catalogs(self) -> Collection[CatalogName]:
        """The catalogs with documents of Hive tables."""

    def relations_after(self, after: RelationId | None, *, limit: int) -> Sequence[RelationId]:
        """The next relations that have documents of their own, by id; stores have none."""

    def leftovers(self, *, limit: int) -> Sequence[RelationId]:
        """Relations that have a document, but do not exist any more."""

    def newest_event(self) -> int:
        """The id of the newest commit, 0 before the first."""

    def changed_after(self, event: int, until: int) -> Collection[RelationId]:
        """The relations whose name, schema or properties changed in commits after one event, up to another.

        For a store it returns the keyed table.
        """

    def position(self, name: str) -> str | None:
        """A stored position of the task that fills the index."""

    def set_position(self, name: str, position: str) -> None:
        """Store a position."""

    def by_exact_name(self, folded: str, scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents whose folded name is this one."""

    def by_beginning(self, folded: str, scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents whose folded name begins like this, by name."""

    def by_name_words(self, words: Sequence[str], scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents of which each word begins a word of the name or namespace, in no order."""

    def by_other_words(self, words: Sequence[str], scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents of which each word begins a word of a column or comment, in no order."""

    def by_any_words(self, words: Sequence[str], scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents of which each word begins some word, in no order."""


class SearchedObjects(Protocol):
    """Objects that a search finds in their own tables, of which there are fewer."""

    def jobs_by_id(self, lowest: UUID, highest: UUID, *, limit: int) -> Sequence[Job]:
        """Jobs with an id in a range, newest first."""

    def jobs_of(self, relation_ids: Collection[RelationId], *, limit: int) -> Sequence[Job]:
        """The newest jobs of these tables."""

    def namespaces(self, texts: Sequence[str], *, limit: int) -> Sequence[FoundNamespace]:
        """Namespaces whose name and properties together hold all texts, by name. The texts are in ASCII."""

    def pipelines(self, words: Sequence[str], *, limit: int) -> Sequence[Pipeline]:
        """Pipelines whose names hold all words, by name."""

    def saved_queries(self, owner: PrincipalId | None, words: Sequence[str], *, limit: int) -> Sequence[SavedQuery]:
        """The owner's and the shared saved queries whose name or statement holds all words, by name."""
