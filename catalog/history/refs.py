"""Branches and tags: what may be asked of them, and the updates and requirements that do it.

Each change requires the ref to be where the caller saw it: of two that change one ref at once, one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from catalog.errors import Conflict, Invalid, NotFound
from catalog.history.commit import TableCommit
from catalog.history.lineage import Lineage, Rollback, find_ref_or_snapshot
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, ref_of
from catalog.names import TableName

LONGEST_NAME = 255


class RefType(StrEnum):
    """A branch goes on, a tag stays."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRef:
    """A branch or tag as somebody wants it to be; what it does not say of ages, the table's own rules say."""

    name: str
    type: RefType
    at: str = MAIN
    """A snapshot's id, or a branch or tag that points at it."""
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    replace: bool = False
    """Whether a ref of this name that points elsewhere may be moved."""


def build_set_ref(table: TableName, metadata: Json, wanted: WantedRef) -> TableCommit | None:
    """The commit that makes the ref, None when it is so; Conflict when it is there and may not be moved."""
    _check_name(wanted.name)
    snapshot_id = find_ref_or_snapshot(metadata, wanted.at)
    now = ref_of(metadata, wanted.name)
    if now is not None:
        _check_moves(wanted, now, snapshot_id)
    elif wanted.name == MAIN:
        raise Invalid("the table has no data yet: main begins with the first write")
    ages = {
        "max-ref-age-ms": wanted.max_ref_age_ms,
        "max-snapshot-age-ms": wanted.max_snapshot_age_ms,
        "min-snapshots-to-keep": wanted.min_snapshots_to_keep,
    }
    if wanted.type is RefType.TAG and (wanted.max_snapshot_age_ms or wanted.min_snapshots_to_keep):
        raise Invalid("a tag keeps its own snapshot alone: only how long the tag itself is kept can be said")
    ref: Json = {
        "type": str(wanted.type),
        "snapshot-id": snapshot_id,
        **{key: value for key, value in ages.items() if value is not None},
    }
    if ref == now:
        return None
    update = {"action": "set-snapshot-ref", "ref-name": wanted.name, **ref}
    return TableCommit(name=table, requirements=_required(metadata, wanted.name), updates=[update])


def _check_moves(wanted: WantedRef, now: Json, snapshot_id: int) -> None:
    if now["type"] != wanted.type:
        raise Conflict(
            f"{wanted.name} is a {now['type']}", hint=f"choose another name, or drop the {now['type']} first"
        )
    if now["snapshot-id"] == snapshot_id:
        return
    if wanted.name == MAIN:
        raise Conflict("main is not moved like another branch", hint="roll the table back, or fast-forward main")
    if not wanted.replace:
        raise Conflict(
            f"{now['type']} {wanted.name} exists at snapshot {now['snapshot-id']}", hint="ask for it to be replaced"
        )


def build_drop_ref(table: TableName, metadata: Json, name: str) -> TableCommit:
    """The commit that removes a branch or tag; its snapshots stay until they expire."""
    if name == MAIN:
        raise Invalid("main cannot be dropped: it is the table")
    if ref_of(metadata, name) is None:
        raise NotFound(f"the table has no branch or tag {name}", hint="`firn table refs` lists what is there")
    update: Json = {"action": "remove-snapshot-ref", "ref-name": name}
    return TableCommit(name=table, requirements=_required(metadata, name), updates=[update])


def build_fast_forward(table: TableName, metadata: Json, branch: str, to: str) -> TableCommit | None:
    """The commit that moves a branch to where another ref is; None when it is there.

    Conflict unless the branch's head is an ancestor: whatever else would lose commits of the branch.
    """
    now, wanted = ref_of(metadata, branch), find_ref_or_snapshot(metadata, to)
    if now is None or now.get("type") == "tag":
        raise NotFound(f"the table has no branch {branch}", hint="`firn table refs` lists what is there")
    if now["snapshot-id"] == wanted:
        return None
    lineage = Lineage.of(metadata)
    if not lineage.descends(wanted, ancestor=now["snapshot-id"]):
        behind = len(lineage.only_in(now["snapshot-id"], wanted))
        raise Conflict(
            f"{branch} cannot be fast-forwarded to {to}: it has {behind} snapshot{'' if behind == 1 else 's'} that "
            f"{to} does not stand on",
            hint=f"write what {to} has onto {branch} anew, or make {to} again from {branch}",
        )
    update = {"action": "set-snapshot-ref", "ref-name": branch, **now, "snapshot-id": wanted}
    return TableCommit(name=table, requirements=_required(metadata, branch, *_named(metadata, to)), updates=[update])


def build_rollback(table: TableName, metadata: Json, rollback: Rollback) -> TableCommit:
    """The commit that sets main; how long main keeps its snapshots stays as it was."""
    main = ref_of(metadata, MAIN) or {"type": "branch"}
    update = {"action": "set-snapshot-ref", "ref-name": MAIN, **main, "snapshot-id": rollback.target}
    return TableCommit(name=table, requirements=_required(metadata, MAIN), updates=[update])


def _required(metadata: Json, *names: str) -> Sequence[Json]:
    """That the table is this one and the refs are where they are in `metadata`."""
    refs = [
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": None if ref is None else ref["snapshot-id"]}
        for name, ref in ((name, ref_of(metadata, name)) for name in names)
    ]
    return [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}, *refs]


def _named(metadata: Json, text: str) -> list[str]:
    """The text, if it names a ref rather than a snapshot."""
    return [] if ref_of(metadata, text) is None else [text]


def _check_name(name: str) -> None:
    """Invalid for a name that engines could not read by: what is all digits they take for a snapshot's id."""
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME:
        raise Invalid(
            f"{name!r} is no name for a branch or tag: it has 1 to {LONGEST_NAME} characters, none blank at an end"
        )
    if not name.isprintable():
        raise Invalid(f"{name!r} is no name for a branch or tag: it has characters that cannot be seen")
    if name.isdigit():
        raise Invalid(f"{name!r} is no name for a branch or tag: engines take a number for a snapshot's id")
