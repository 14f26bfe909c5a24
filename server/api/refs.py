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
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.history import MovedOut, TotalsOut, build_moved_out
from server.service.tables.refs import Seen, Target

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}", tags=["history"])

RefDep = Annotated[str, Path(description="a branch or tag")]


class RefOut(Out):
    """One branch or tag. `ahead` and `behind` count snapshots relative to main."""

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
    """The requested state of a branch or tag. `snapshot` is a snapshot's id, or a ref that points to it."""

    type: RefType
    snapshot: str = MAIN
    max_ref_age_ms: PositiveInt | None = None
    max_snapshot_age_ms: PositiveInt | None = None
    min_snapshots_to_keep: PositiveInt | None = None
    replace: bool = False


class ForwardIn(In):
    """The new target of a branch: a ref or a snapshot's id."""

    to: str


class RollbackIn(In):
    """The new target of main: a snapshot, a ref that points to it, or a time.

    `expected_head` is the head that a dry run showed. If the head has changed since, the server refuses.
    """

    snapshot_id: str | None = None
    timestamp: AwareDatetime | None = None
    expected_head: str | None = None


class RollbackOut(Out):
    """The effect of a rollback: snapshots that leave main or return to it, and refs that keep the leaving ones."""

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
    description: str


@router.get("/refs", summary="List branches and tags", responses=refusals(404))
def list_refs(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> list[RefOut]:
    """List the refs of a plain table, or of a keyed table's base store: main, then branches, then tags."""
    return _describe_refs(services.refs.load(catalog, table))


@router.put("/refs/{name:path}", summary="Create or change a branch or tag", responses=refusals(400, 404, 409))
def set_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: RefDep, body: RefIn) -> RefOut:
    """Create or change a ref. Only `replace` moves an existing ref; for main only the retention can change."""
    requested = WantedRef(
        name=name,
        type=body.type,
        at=body.snapshot,
        max_ref_age_ms=body.max_ref_age_ms,
        max_snapshot_age_ms=body.max_snapshot_age_ms,
        min_snapshots_to_keep=body.min_snapshots_to_keep,
        replace=body.replace,
    )
    services.refs.set(catalog, table, requested)
    return _load_ref(services, catalog, table, name)


@router.delete("/refs/{name:path}", status_code=204, summary="Drop a branch or tag", responses=refusals(400, 404, 409))
def drop_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: RefDep) -> None:
    """Drop a branch or tag. Its snapshots stay in the table until they expire."""
    services.refs.drop(catalog, table, name)


@router.post("/refs/{name:path}/fast-forward", summary="Fast-forward a branch", responses=refusals(400, 404, 409))
def forward_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: RefDep, body: ForwardIn) -> RefOut:
    """Move a branch forward to another ref or snapshot. The server refuses if the branch would lose commits."""
    services.refs.forward(catalog, table, name, body.to)
    return _load_ref(services, catalog, table, name)


@router.post("/rollback", summary="Roll a plain table back", responses=refusals(400, 404, 409))
def roll_back(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    body: RollbackIn,
    *,
    dry_run: Annotated[bool, Query()] = False,
) -> RollbackOut:
    """Set main to an older snapshot, or to a newer one to undo a rollback.

    This deletes nothing: snapshots that leave main stay in the table until they expire.
    """
    target = Target(snapshot=body.snapshot_id, at=body.timestamp)
    if dry_run:
        state, rollback = services.refs.plan(catalog, table, target)
    else:
        expected = None if body.expected_head is None else _parse_snapshot_id(body.expected_head)
        state, rollback = services.refs.rollback(catalog, table, target, expected_head=expected)
    return _describe_rollback(state, rollback, done=not dry_run)


def _parse_snapshot_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > HIGHEST_LONG:
        raise Invalid(f"{text!r} is not a snapshot id")
    return int(text)


def _load_ref(services: ServicesDep, catalog: CatalogDep, table: TableDep, name: str) -> RefOut:
    ref = next((ref for ref in _describe_refs(services.refs.load(catalog, table)) if ref.name == name), None)
    if ref is None:  # somebody dropped it again
        raise Invalid(f"{name} was set, but somebody else dropped it right after")
    return ref


def _describe_refs(state: Seen) -> list[RefOut]:
    metadata = state.metadata
    lineage, main = Lineage.of(metadata), ref_snapshot_id(metadata, MAIN)
    on_main = {snapshot_id: depth for depth, snapshot_id in enumerate(lineage.ancestors(main))}
    refs = metadata.get("refs") or ({} if main is None else {MAIN: ref_of(metadata, MAIN)})
    described = [_describe_ref(name, ref, lineage, on_main) for name, ref in refs.items()]
    return sorted(described, key=lambda ref: (ref.name != MAIN, ref.type, ref.name))


def _describe_ref(name: str, ref: Json, lineage: Lineage, on_main: dict[int, int]) -> RefOut:
    snapshot_id: int = ref["snapshot-id"]
    snapshot = lineage.snapshots.get(snapshot_id)
    ahead, common_ancestor = 0, snapshot_id
    if snapshot_id not in on_main:
        ancestors = lineage.ancestors(snapshot_id)
        ahead = next((depth for depth, ancestor in enumerate(ancestors) if ancestor in on_main), len(ancestors))
        common_ancestor = ancestors[ahead] if ahead < len(ancestors) else -1
    kind = RefType(ref.get("type", "branch"))
    behind = on_main.get(common_ancestor, len(on_main))
    timestamp_ms = None if snapshot is None else snapshot["timestamp-ms"]
    return RefOut(
        name=name,
        type=kind,
        snapshot_id=str(snapshot_id),
        committed_at=None if timestamp_ms is None else datetime.fromtimestamp(timestamp_ms / 1000, UTC),
        operation=((snapshot or {}).get("summary") or {}).get("operation"),
        totals=TotalsOut.of(Totals.of(snapshot)),
        ahead=ahead,
        behind=behind,
        max_ref_age_ms=ref.get("max-ref-age-ms"),
        max_snapshot_age_ms=ref.get("max-snapshot-age-ms"),
        min_snapshots_to_keep=ref.get("min-snapshots-to-keep"),
        can_forward=kind is RefType.BRANCH and name != MAIN and ahead == 0 and behind > 0,
    )


def _describe_rollback(state: Seen, rollback: Rollback, *, done: bool) -> RollbackOut:
    lineage, role = Lineage.of(state.metadata), str(state.relation.kind)
    leaving, returning = (
        build_moved_out(role, [lineage.snapshots[snapshot_id] for snapshot_id in ids], state.metadata)
        for ids in (rollback.leaving, rollback.returning)
    )
    timestamp_ms = lineage.snapshots[rollback.target]["timestamp-ms"]
    return RollbackOut(
        done=done,
        changes=not rollback.is_done,
        head=str(rollback.head),
        target=str(rollback.target),
        target_at=datetime.fromtimestamp(timestamp_ms / 1000, UTC),
        now=TotalsOut.of(rollback.now),
        then=TotalsOut.of(rollback.then),
        leaving=leaving,
        returning=returning,
        held={str(snapshot_id): list(names) for snapshot_id, names in rollback.held.items()},
        description=_write_sentence(rollback, leaving, returning),
    )


def _write_sentence(rollback: Rollback, leaving: MovedOut, returning: MovedOut) -> str:
    if rollback.is_done:
        return f"main is at snapshot {rollback.target} already"
    parts = [
        f"{verb} {_count(moved.commits, 'commit')} with {_count(moved.added_rows, 'row')} added and "
        f"{moved.removed_rows:,} removed"
        for verb, moved in (("take from main", leaving), ("bring back to main", returning))
        if moved.commits
    ]
    then, now = (
        f"{_count(totals.rows, 'row')} in {_count(totals.files, 'file')}" for totals in (rollback.then, rollback.now)
    )
    return f"{' and '.join(parts)}; the table then has {then}, now {now}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
