"""Branches and tags: the checks on a request, and the updates and requirements that fulfil it.

Each change requires that the ref is still where the caller saw it. Of two concurrent changes of one ref, the server
refuses one.
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
    """A branch moves with its commits, a tag stays."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRef:
    """A branch or tag as requested. For ages that it does not set, the table's own rules apply."""

    name: str
    type: RefType
    at: str = MAIN
    """A snapshot id, or a branch or tag that points at the snapshot."""
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    replace: bool = False
    """Whether a ref of this name may be moved from another snapshot."""


def build_set_ref(table: TableName, metadata: Json, wanted: WantedRef) -> TableCommit | None:
    """The commit that sets the ref; None if it is set already; Conflict if it exists and may not be moved."""
    _check_name(wanted.name)
    snapshot_id = find_ref_or_snapshot(metadata, wanted.at)
    now = ref_of(metadata, wanted.name)
    if now is not None:
        _check_move(wanted, now, snapshot_id)
    elif wanted.name == MAIN:
        raise Invalid("the table has no data yet: main begins with the first write")
    ages = {
        "max-ref-age-ms": wanted.max_ref_age_ms,
        "max-snapshot-age-ms": wanted.max_snapshot_age_ms,
        "min-snapshots-to-keep": wanted.min_snapshots_to_keep,
    }
    if wanted.type is RefType.TAG and (wanted.max_snapshot_age_ms or wanted.min_snapshots_to_keep):
        raise Invalid("a tag keeps only its own snapshot: set only how long the tag itself is kept")
    ref: Json = {
        "type": str(wanted.type),
        "snapshot-id": snapshot_id,
        **{key: value for key, value in ages.items() if value is not None},
    }
    if ref == now:
        return None
    update = {"action": "set-snapshot-ref", "ref-name": wanted.name, **ref}
    return TableCommit(name=table, requirements=_build_requirements(metadata, wanted.name), updates=[update])


def _check_move(wanted: WantedRef, now: Json, snapshot_id: int) -> None:
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
            f"{now['type']} {wanted.name} exists at snapshot {now['snapshot-id']}", hint="set `replace` to move it"
        )


def build_drop_ref(table: TableName, metadata: Json, name: str) -> TableCommit:
    """The commit that removes a branch or tag. Its snapshots stay until they expire."""
    if name == MAIN:
        raise Invalid("main cannot be dropped: it is the table")
    if ref_of(metadata, name) is None:
        raise NotFound(f"the table has no branch or tag {name}", hint="`firn table refs` lists branches and tags")
    update: Json = {"action": "remove-snapshot-ref", "ref-name": name}
    return TableCommit(name=table, requirements=_build_requirements(metadata, name), updates=[update])


def build_fast_forward(table: TableName, metadata: Json, branch: str, to: str) -> TableCommit | None:
    """The commit that moves a branch to another ref; None if the branch is there already.

    Conflict unless the branch's head is an ancestor of the target: any other move would lose commits of the branch.
    """
    now, wanted = ref_of(metadata, branch), find_ref_or_snapshot(metadata, to)
    if now is None or now.get("type") == "tag":
        raise NotFound(f"the table has no branch {branch}", hint="`firn table refs` lists branches and tags")
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
    return TableCommit(
        name=table,
        requirements=_build_requirements(metadata, branch, *_list_named_refs(metadata, to)),
        updates=[update],
    )


def build_rollback(table: TableName, metadata: Json, rollback: Rollback) -> TableCommit:
    """The commit that sets main. Main's own retention stays unchanged."""
    main = ref_of(metadata, MAIN) or {"type": "branch"}
    update = {"action": "set-snapshot-ref", "ref-name": MAIN, **main, "snapshot-id": rollback.target}
    return TableCommit(name=table, requirements=_build_requirements(metadata, MAIN), updates=[update])


def _build_requirements(metadata: Json, *names: str) -> Sequence[Json]:
    """Requirements: the table has its UUID, and the refs are where they are in `metadata`."""
    refs = [
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": None if ref is None else ref["snapshot-id"]}
        for name, ref in ((name, ref_of(metadata, name)) for name in names)
    ]
    return [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}, *refs]


def _list_named_refs(metadata: Json, text: str) -> list[str]:
    """The text in a list if it names a ref; an empty list if it names a snapshot."""
    return [] if ref_of(metadata, text) is None else [text]


def _check_name(name: str) -> None:
    """Invalid for a name that engines cannot read by: they take a name of digits for a snapshot id."""
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME:
        raise Invalid(
            f"{name!r} is no name for a branch or tag: it has 1 to {LONGEST_NAME} characters, none blank at an end"
        )
    if not name.isprintable():
        raise Invalid(f"{name!r} is no name for a branch or tag: it has invisible characters")
    if name.isdigit():
        raise Invalid(f"{name!r} is no name for a branch or tag: engines take a number for a snapshot's id")
