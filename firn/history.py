"""What happened to a table, its branches and tags, and rollback: a part of `client.tables["db.t"]`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from firn.transport import Json, Transport


class TableHistory(ABC):
    """The methods of a table's handle that have to do with its past."""

    __slots__ = ()
    transport: Transport

    @abstractmethod
    def path_to(self, part: str) -> str:
        """The address of one of the table's parts."""

    def history(self, limit: int | None = None, *, kinds: Sequence[str] = ()) -> list[Json]:
        """What happened to it or its stores, newest first; `kinds` are topics such as `schema` and `refs`."""
        return list(self.transport.items(self.path_to("/history"), {"kind": list(kinds) or None}, limit=limit))

    def compare(self, first: str, second: str = "main") -> Json:
        """What leads from one state to the other; each a snapshot, a branch or tag, or `@ENTRY` of the history."""
        return self.transport.get(self.path_to("/compare"), {"from": first, "to": second})

    def metrics(self, limit: int | None = None, *, kind: str | None = None) -> list[Json]:
        """What engines have reported of their scans and commits, newest first; `kind` is one kind of report."""
        return list(self.transport.items(self.path_to("/metrics"), {"kind": kind}, limit=limit))

    def refs(self) -> list[Json]:
        """Branches and tags; main first."""
        return list(self.transport.items(self.path_to("/refs")))

    def tag(
        self, name: str, *, snapshot: str = "main", max_ref_age_ms: int | None = None, replace: bool = False
    ) -> Json:
        """Name a snapshot; Refused when the tag exists elsewhere and is not to be replaced."""
        body = {"type": "tag", "snapshot": snapshot, "max_ref_age_ms": max_ref_age_ms, "replace": replace}
        return self.transport.change("PUT", self.path_to(f"/refs/{quoted(name)}"), body)

    def branch(
        self,
        name: str,
        *,
        snapshot: str = "main",
        max_ref_age_ms: int | None = None,
        max_snapshot_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
        replace: bool = False,
    ) -> Json:
        """Make a branch at a snapshot, or change how long it and its snapshots are kept."""
        body = {
            "type": "branch",
            "snapshot": snapshot,
            "max_ref_age_ms": max_ref_age_ms,
            "max_snapshot_age_ms": max_snapshot_age_ms,
            "min_snapshots_to_keep": min_snapshots_to_keep,
            "replace": replace,
        }
        return self.transport.change("PUT", self.path_to(f"/refs/{quoted(name)}"), body)

    def drop_ref(self, name: str) -> None:
        """Drop a branch or tag; its snapshots stay until they expire."""
        self.transport.change("DELETE", self.path_to(f"/refs/{quoted(name)}"))

    def fast_forward(self, branch: str, *, to: str) -> Json:
        """Move a branch to where another ref is; Refused if it would lose commits by it."""
        return self.transport.change("POST", self.path_to(f"/refs/{quoted(branch)}/fast-forward"), {"to": to})

    def rollback(
        self,
        *,
        snapshot: str | None = None,
        at: datetime | None = None,
        expected_head: str | None = None,
        dry_run: bool = False,
    ) -> Json:
        """Set a plain table to an older snapshot, or to what readers saw at a time (with a zone).

        `expected_head` is the head that a dry run has shown: were it another by now, it is Refused.
        """
        moment = None if at is None else at.isoformat()
        body = {"snapshot_id": snapshot, "timestamp": moment, "expected_head": expected_head}
        return self.transport.change("POST", self.path_to("/rollback"), body, {"dry_run": dry_run})


def quoted(part: str) -> str:
    """A name as a part of an address."""
    return quote(part, safe="")
