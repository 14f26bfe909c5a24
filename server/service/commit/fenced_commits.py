"""Counts the commits that the server refuses because their writer is fenced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from catalog.errors import WriterFenced
from catalog.names import CatalogName, TableName
from catalog.tables.relation import Relation, RelationKind
from server.prometheus import FENCED_COMMITS
from server.service.commit.commit_target import CommitTarget


@contextmanager
def count_fenced_commits(catalog: CatalogName, targets: Sequence[CommitTarget]) -> Iterator[None]:
    """Count a refusal under the table of the writer.

    The labels stay few: only a commit to an existing table by a registered writer can be fenced.
    """
    try:
        yield
    except WriterFenced:
        for target in targets:
            if target.facts.writer is not None:
                FENCED_COMMITS.labels(str(catalog), str(_name_table(target.relation))).inc()
        raise


def _name_table(relation: Relation) -> TableName:
    """The name by which people know the table: that of a keyed table instead of its store."""
    if relation.kind not in (RelationKind.CHANGE, RelationKind.QUARANTINE):
        return relation.name
    *namespace, name = relation.name.namespace
    return TableName(tuple(namespace), name)
