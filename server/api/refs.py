"""Branches and tags of tables, and rollback."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime, PositiveInt

from catalog.errors import Invalid
from catalog.history.lineage import Lineage, Rollback, Totals
from catalog.history.refs import RefType, WantedRef
from catalog.iceberg.json import HIGHEST_LONG, Json
from catalog.iceberg.reading import MAIN, ref_of, ref_snapshot_id
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.history import MovedOut, TotalsOut, moved_out
from server.service.tables.refs import Seen, Target

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}", tags=["history"])

RefDep = Annotated[str, Path(description="a branch or tag")]


class RefOut(Out):
    """One branch or tag; `ahead` and `behind` count snapshots against main, None where history does not tell."""

    name: str
    type: RefType
    snapshot_id: str
    committed_at: datetime | None
    operation: str | None
    totals: TotalsOut
    ahead: int
    behind: int
    max_ref_age_ms: int | None
    max_snapshot_age_ms: int | None
    min_snapshots_to_keep: int | None
    can_forward: bool


class RefIn(In):
    """A branch or tag as it is to be. `snapshot` is a snapshot's id or a ref that points at it."""

    type: RefType
    snapshot: str = MAIN
    max_ref_age_ms: PositiveInt | None = None
    max_snapshot_age_ms: PositiveInt | None = None
    min_snapshots_to_keep: PositiveInt | None = None
    replace: bool = False


class ForwardIn(In):
    """Where a branch is to go."""

    to: str


class RollbackIn(In):
    """Where main is to go, by a snapshot (or a ref that names it) or by time.

    `expected_head` is the head that a dry run has shown: were it another by now, nothing is done.
    """

    snapshot_id: str | None = None
    timestamp: AwareDatetime | None = None
    expected_head: str | None = None


class RollbackOut(Out):
    """What a rollback does: what leaves main, what comes back to it, and what holds the leaving snapshots."""

    done: bool
    changes: bool
    head: str
    target: str
    target_at: datetime
    now: TotalsOut
    then: TotalsOut
    leaving: MovedOut
    returning: MovedOut
    held: dict[str, list[str]]
    words: str


@router.get("/refs", summary="List branches and tags", responses=refusals(404))
def list_refs(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[RefOut]:
    """Of a plain table, or of a keyed table's base store; main first, then branches, then tags."""
    return _refs(services.refs.look(catalog, table))


@router.put("/refs/{name:path}", summary="Make or change a branch or tag", responses=refusals(400, 404, 409))
def set_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: RefDep, body: RefIn) -> RefOut:
    """A ref that points elsewhere is moved only with `replace`; main only changes how long it keeps snapshots."""
    wanted = WantedRef(
        name=name,
        type=body.type,
        at=body.snapshot,
        max_ref_age_ms=body.max_ref_age_ms,
        max_snapshot_age_ms=body.max_snapshot_age_ms,
        min_snapshots_to_keep=body.min_snapshots_to_keep,
        replace=body.replace,
    )
    services.refs.set(catalog, table, wanted)
    return _one(services, catalog, table, name)


@router.delete("/refs/{name:path}", status_code=204, summary="Drop a branch or tag", responses=refusals(400, 404, 409))
def drop_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: RefDep) -> None:
    """Its snapshots stay in the table until they expire."""
    services.refs.drop(catalog, table, name)


@router.post("/refs/{name:path}/fast-forward", summary="Fast-forward a branch", responses=refusals(400, 404, 409))
def forward_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: RefDep, body: ForwardIn) -> RefOut:
    """To where another ref or snapshot is; refused if the branch would lose commits by it."""
    services.refs.forward(catalog, table, name, body.to)
    return _one(services, catalog, table, name)


@router.post("/rollback", summary="Roll a plain table back", responses=refusals(400, 404, 409))
def roll_back(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    body: RollbackIn,
    *,
    dry_run: Annotated[bool, Query()] = False,
) -> RollbackOut:
    """Set main to an older snapshot, or to a newer one to undo that.

    Nothing is deleted: what leaves main stays in the table until it expires.
    """
    target = Target(snapshot=body.snapshot_id, at=body.timestamp)
    if dry_run:
        seen, rollback = services.refs.plan(catalog, table, target)
    else:
        expected = None if body.expected_head is None else _id(body.expected_head)
        seen, rollback = services.refs.rollback(catalog, table, target, expected_head=expected)
    return _rollback(seen, rollback, done=not dry_run)


def _id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > HIGHEST_LONG:
        raise Invalid(f"{text!r} is no snapshot's id")
    return int(text)


def _one(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: str) -> RefOut:
    seen = services.refs.look(catalog, table)
    found = next((one for one in _refs(seen) if one.name == name), None)
    if found is None:  # dropped again since
        raise Invalid(f"{name} was made, and dropped by somebody else right after")
    return found


def _refs(seen: Seen) -> list[RefOut]:
    metadata = seen.metadata
    lineage, main = Lineage.of(metadata), ref_snapshot_id(metadata, MAIN)
    on_main = {snapshot_id: place for place, snapshot_id in enumerate(lineage.ancestors(main))}
    refs = metadata.get("refs") or ({} if main is None else {MAIN: ref_of(metadata, MAIN)})
    shown = [_ref(name, ref, lineage, on_main) for name, ref in refs.items()]
    return sorted(shown, key=lambda one: (one.name != MAIN, one.type, one.name))


def _ref(name: str, ref: Json, lineage: Lineage, on_main: dict[int, int]) -> RefOut:
    snapshot_id: int = ref["snapshot-id"]
    snapshot = lineage.snapshots.get(snapshot_id)
    ahead, meets = 0, snapshot_id
    if snapshot_id not in on_main:
        own = lineage.ancestors(snapshot_id)
        ahead = next((place for place, one in enumerate(own) if one in on_main), len(own))
        meets = own[ahead] if ahead < len(own) else -1
    kind = RefType(ref.get("type", "branch"))
    behind = on_main.get(meets, len(on_main))
    at = None if snapshot is None else snapshot["timestamp-ms"]
    return RefOut(
        name=name,
        type=kind,
        snapshot_id=str(snapshot_id),
        committed_at=None if at is None else datetime.fromtimestamp(at / 1000, UTC),
        operation=((snapshot or {}).get("summary") or {}).get("operation"),
        totals=TotalsOut.of(Totals.of(snapshot)),
        ahead=ahead,
        behind=behind,
        max_ref_age_ms=ref.get("max-ref-age-ms"),
        max_snapshot_age_ms=ref.get("max-snapshot-age-ms"),
        min_snapshots_to_keep=ref.get("min-snapshots-to-keep"),
        can_forward=kind is RefType.BRANCH and name != MAIN and ahead == 0 and behind > 0,
    )


def _rollback(seen: Seen, rollback: Rollback, *, done: bool) -> RollbackOut:
    lineage, role = Lineage.of(seen.metadata), str(seen.relation.kind)
    leaving, returning = (
        moved_out(role, [lineage.snapshots[one] for one in ids], seen.metadata)
        for ids in (rollback.leaving, rollback.returning)
    )
    at = lineage.snapshots[rollback.target]["timestamp-ms"]
    return RollbackOut(
        done=done,
        changes=not rollback.is_done,
        head=str(rollback.head),
        target=str(rollback.target),
        target_at=datetime.fromtimestamp(at / 1000, UTC),
        now=TotalsOut.of(rollback.now),
        then=TotalsOut.of(rollback.then),
        leaving=leaving,
        returning=returning,
        held={str(one): list(names) for one, names in rollback.held.items()},
        words=_words(rollback, leaving, returning),
    )


def _words(rollback: Rollback, leaving: MovedOut, returning: MovedOut) -> str:
    if rollback.is_done:
        return f"main is at snapshot {rollback.target} already"
    parts = [
        f"{verb} {_many(moved.commits, 'commit')} with {_many(moved.added_rows, 'row')} added and "
        f"{moved.removed_rows:,} removed"
        for verb, moved in (("take from main", leaving), ("bring back to main", returning))
        if moved.commits
    ]
    then, now = (f"{_many(one.rows, 'row')} in {_many(one.files, 'file')}" for one in (rollback.then, rollback.now))
    return f"{' and '.join(parts)}; the table then has {then}, now {now}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
