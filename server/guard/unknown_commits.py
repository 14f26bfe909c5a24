"""Refusing a commit whose first try may have been applied.

An engine deletes the files of a commit that is refused. When the answer to a commit is lost, it asks again; if its
token ends, or it loses the privilege, just between the two, a refusal would make it delete files that the table stands
on. So before a commit is refused one looks whether it is in the table; then the answer is that nobody knows, after
which files stay.
"""

from __future__ import annotations

from typing import NoReturn

from catalog.errors import CatalogError, CommitUnknown, Invalid, NotFound
from catalog.history.commit import TableCommit
from catalog.iceberg.updates import parse_updates
from catalog.names import TableName, decode_namespace
from server.guard.requirements import GuardedRequest, Rule
from server.iceberg.requests import name_of, objects_in


def refuse(rule: Rule, asked: GuardedRequest, refusal: CatalogError) -> NoReturn:
    """Raise the refusal, or CommitUnknown when the request repeats a commit that was applied."""
    if rule.commits and _was_applied(asked):
        raise CommitUnknown(f"it was applied before, and must not be undone: {refusal.message}") from refusal
    raise refusal


def _was_applied(asked: GuardedRequest) -> bool:
    try:
        return asked.services.committer.has_applied(asked.catalog, _changes(asked))
    except (Invalid, NotFound):
        return False


def _changes(asked: GuardedRequest) -> list[TableCommit]:
    body = asked.json
    if "table" in asked.path:
        name = TableName(decode_namespace(asked.path["namespace"]), asked.path["table"])
        return [TableCommit(name=name, updates=parse_updates(objects_in(body, "updates")))]
    return [
        TableCommit(
            name=name_of(one.get("identifier"), "identifier"), updates=parse_updates(objects_in(one, "updates"))
        )
        for one in objects_in(body, "table-changes")
    ]
