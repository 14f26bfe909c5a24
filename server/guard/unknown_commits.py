"""Refusals of a commit whose earlier attempt may have been applied.

An engine deletes the files of a refused commit.  It retries a commit without an answer.  If its token or privilege ends
between the two attempts, a refusal would make it delete files of the table.  So before a refusal the gate checks
whether the table has the commit, and then answers that the outcome is unknown, which keeps the files.
"""

from __future__ import annotations

from typing import NoReturn

from catalog.errors import CatalogError, CommitUnknown, Invalid, NotFound
from catalog.history.commit import TableCommit
from catalog.iceberg.updates import parse_updates
from catalog.names import TableName, decode_namespace
from server.guard.requirements import GuardedRequest, Rule
from server.iceberg.requests import name_of, objects_in


def refuse(rule: Rule, request: GuardedRequest, refusal: CatalogError) -> NoReturn:
    """Raise the refusal, or CommitUnknown when the request repeats an applied commit."""
    if rule.commits and _was_applied(request):
        raise CommitUnknown(
            f"the server applied an earlier try of this commit, and now refuses it: {refusal.message}"
        ) from refusal
    raise refusal


def _was_applied(request: GuardedRequest) -> bool:
    try:
        return request.services.committer.has_applied(request.catalog, _parse_commits(request))
    except (Invalid, NotFound):
        return False


def _parse_commits(request: GuardedRequest) -> list[TableCommit]:
    body = request.json
    if "table" in request.path:
        name = TableName(decode_namespace(request.path["namespace"]), request.path["table"])
        return [TableCommit(name=name, updates=parse_updates(objects_in(body, "updates")))]
    return [
        TableCommit(
            name=name_of(change.get("identifier"), "identifier"), updates=parse_updates(objects_in(change, "updates"))
        )
        for change in objects_in(body, "table-changes")
    ]
