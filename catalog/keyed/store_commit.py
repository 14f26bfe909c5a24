"""The rules for commits to a keyed table's stores, and the watermark that the server adds to them.

Engines see the stores as Iceberg tables. The server refuses commits that would invalidate the watermark. It stamps
every base snapshot with the watermark, so that each snapshot describes itself (docs/architecture.md#keyed-tables,
docs/protocols.md#keyed-tables).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from textwrap import shorten

from catalog.errors import CommitRefused
from catalog.files.manifest_entries import NewDeletes
from catalog.iceberg.json import Json, child, children, integer, text
from catalog.iceberg.summaries import read_number
from catalog.iceberg.table import current_snapshot, ref_snapshot_id
from catalog.jobs.job import JobKind
from catalog.keyed.column_rules import check_names_batch, check_ruled_columns
from catalog.keyed.image import look_for_spec
from catalog.keyed.log_stamp import stamp_log
from catalog.keyed.partial import PARTIAL, check_partitioned_by_key, check_switch, is_partial, wants_partial
from catalog.keyed.schema import check_altered, share_field_ids
from catalog.keyed.sequence_groups import check_grouped_columns
from catalog.keyed.spec import (
    INSERT_ONLY,
    KEY_SCOPE,
    LOG_TOPIC,
    LOOKED_AT_CHANGE,
    MERGED_BASE,
    MERGED_CHANGE,
    MERGED_FROM,
    MERGED_THROUGH,
    PRIMARY_KEY,
    RESOLVED_BASE,
    SEQUENCE_FIELD,
    KeyedTable,
)
from catalog.tables.relation import RelationKind
from firn.protocol.partial import is_merge_property

FIXED_PROPERTIES = frozenset({PRIMARY_KEY, SEQUENCE_FIELD, KEY_SCOPE, INSERT_ONLY, LOG_TOPIC, "gc.enabled"})
_MERGING = frozenset({JobKind.MERGE, JobKind.SYNC, JobKind.TTL})
_CLEANING = frozenset({JobKind.MERGE, JobKind.CLEAN, JobKind.SYNC, JobKind.TTL})
_PACKING = frozenset({JobKind.COMPACT, JobKind.REWRITE_MANIFESTS})
_WHOLE_STORE = frozenset({"assign-uuid", "set-location", "upgrade-format-version", "remove-snapshot-ref"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCommit:
    """One commit on one store, with the facts to validate it, all of one moment."""

    role: RelationKind
    keyed: KeyedTable
    base: Json
    change: Json
    updates: Sequence[Json]
    job_kind: JobKind | None
    job_operations: frozenset[str] = frozenset()
    """The snapshot operations that this kind of job may commit to this store."""
    protected_snapshots: Collection[int] = ()
    """Snapshots of this store that readable versions name."""
    linked: bool = False
    """Whether the keyed table is linked to a Hive table. Then partitions may be rebuilt from Hive and history."""
    follows_hive: bool = False
    """Whether the commit registers files that Hive's side wrote."""

    @property
    def store(self) -> Json:
        """The metadata of the store that the commit changes."""
        return self.base if self.role is RelationKind.BASE else self.change


def guard_commit(commit: StoreCommit) -> list[Json]:
    """The updates to apply, with the watermark; CommitRefused if the store's rules forbid one of them."""
    snapshots = [update for update in commit.updates if update.get("action") == "add-snapshot"]
    if len(snapshots) > 1:
        raise CommitRefused("a commit on a keyed table's store adds one snapshot at most")
    for update in commit.updates:
        _check_update(commit, update)
    if snapshots:
        _check_main_moves_on(commit, snapshots[0]["snapshot"])
        _check_snapshot(commit, snapshots[0]["snapshot"])
    return [_stamp_update(commit, update) for update in commit.updates]


def _check_update(commit: StoreCommit, update: Json) -> None:
    action = update.get("action")
    if action in _WHOLE_STORE and not _is_harmless(commit, update):
        raise CommitRefused(
            f"{action} is not allowed on the {commit.role} store of a keyed table",
            hint="work on the keyed table as a whole, through Firn",
        )
    if action == "set-snapshot-ref":
        _check_ref(commit, update)
    if action in ("set-properties", "remove-properties"):
        _check_properties(commit, update)
    if action == "remove-snapshots":
        _check_removal(commit, update)
    if action == "add-schema":
        _check_schema(commit, update)
    if action == "add-spec" and commit.role is RelationKind.CHANGE:
        _check_spec(commit, child(update, "spec", "add-spec"))
    if action == "add-spec" and commit.role is RelationKind.BASE and is_partial(commit.change):
        fields = _read_partition_fields(child(update, "spec", "add-spec"))
        check_partitioned_by_key(commit.base, commit.keyed.spec, fields)


def _is_harmless(commit: StoreCommit, update: Json) -> bool:
    """Whether the update repeats the current state, or removes a tag of base."""
    match update["action"]:
        case "assign-uuid":
            return bool(update.get("uuid") == commit.store["table-uuid"])
        case "set-location":
            return bool(update.get("location") == commit.store["location"])
        case "upgrade-format-version":
            return bool(update.get("format-version") == commit.store["format-version"])
        case _:
            return bool(update.get("ref-name") != "main" and commit.role is RelationKind.BASE)


def _check_spec(commit: StoreCommit, spec: Json) -> None:
    """The packs of an image lie in partitions of change files, and its specs are base's."""
    if look_for_spec(commit.base, {"fields": _read_partition_fields(spec)}) is None:
        raise CommitRefused(
            "the change store cannot be partitioned in a way in which base never was",
            hint="run ALTER TABLE on the keyed table's own name",
        )


def _read_partition_fields(spec: Json) -> list[Json]:
    return [
        {name: read(field, name, "partition field") for name, read in (("source-id", integer), ("transform", text))}
        for field in children(spec, "fields", "partition spec")
    ]


def _check_ref(commit: StoreCommit, update: Json) -> None:
    name = update.get("ref-name")
    if update.get("type") == "tag" and commit.role is RelationKind.BASE:
        return
    if name != "main":
        raise CommitRefused(
            f"the {commit.role} store of a keyed table has no branches but main",
            hint="tags can be set on the base store",
        )
    if update.get("snapshot-id") == ref_snapshot_id(commit.store, "main"):
        return
    added = [u["snapshot"]["snapshot-id"] for u in commit.updates if u.get("action") == "add-snapshot"]
    if update.get("snapshot-id") not in added:
        raise CommitRefused(
            f"main of the {commit.role} store cannot be set back: its watermark would no longer fit",
            hint="the two stores of a keyed table only move together",
        )


def _check_properties(commit: StoreCommit, update: Json) -> None:
    named = update.get("updates") or dict.fromkeys(update.get("removals") or ())
    current = commit.store.get("properties", {})
    for key in named:
        if (key in FIXED_PROPERTIES or is_merge_property(key)) and named[key] != current.get(key):
            raise CommitRefused(f"property {key!r} of a keyed table is fixed when it is created")
    if PARTIAL in named:
        _check_partial(commit, named[PARTIAL])


def _check_partial(commit: StoreCommit, value: str | None) -> None:
    """CommitRefused unless the property says what the change store does, or partial columns can be switched on now."""
    wanted = wants_partial({} if value is None else {PARTIAL: value})
    if wanted == is_partial(commit.change):
        return
    if not wanted:
        raise CommitRefused(f"{PARTIAL} cannot be switched off: changes that set some columns may be there")
    if commit.role is not RelationKind.BASE:
        raise CommitRefused(f"set {PARTIAL} under the keyed table's own name")
    if any(update.get("action") != "set-properties" for update in commit.updates):
        raise CommitRefused(f"set {PARTIAL} in a statement of its own")
    check_switch(commit.base, commit.change, commit.keyed, linked=commit.linked)


def _check_removal(commit: StoreCommit, update: Json) -> None:
    if commit.job_kind is not JobKind.EXPIRE:
        raise CommitRefused(
            "only Firn expires snapshots of a keyed table's stores", hint="run `firn table expire TABLE`"
        )
    held = set(update.get("snapshot-ids") or ()) & set(commit.protected_snapshots)
    if held:
        raise CommitRefused(f"snapshot {min(held)} belongs to a version that readers may still use")


def _check_schema(commit: StoreCommit, update: Json) -> None:
    old = next(s for s in commit.store["schemas"] if s["schema-id"] == commit.store["current-schema-id"])
    check_altered(update["schema"], old, commit.keyed.spec, is_change=commit.role is RelationKind.CHANGE)
    check_ruled_columns(update["schema"], old, commit.base.get("properties") or {})
    check_grouped_columns(update["schema"], old, commit.base.get("properties") or {})


def _check_main_moves_on(commit: StoreCommit, snapshot: Json) -> None:
    head = ref_snapshot_id(commit.store, "main")
    if snapshot.get("parent-snapshot-id") != head:
        raise CommitRefused(f"the new snapshot's parent is not the head of the {commit.role} store")
    moves = [u for u in commit.updates if u.get("action") == "set-snapshot-ref" and u.get("ref-name") == "main"]
    if [u.get("snapshot-id") for u in moves] != [snapshot["snapshot-id"]]:
        raise CommitRefused(f"staged snapshots are not allowed on the {commit.role} store of a keyed table")


def _check_snapshot(commit: StoreCommit, snapshot: Json) -> None:
    summary = snapshot.get("summary") or {}
    if read_number(summary, "added-equality-deletes") or read_number(summary, "added-equality-delete-files"):
        raise _refuse_equality_deletes(commit)
    _check_job_snapshot(commit, summary)
    if commit.role is RelationKind.BASE and commit.job_kind is JobKind.TTL:
        _check_no_appends_since(commit, summary)
    if commit.role is RelationKind.CHANGE:
        _check_change_snapshot(commit, summary)
    elif MERGED_THROUGH in summary:
        _check_merge(commit, snapshot, summary)
    elif commit.job_kind is JobKind.KEYS:
        _check_key_resolution(snapshot, summary)
    else:
        _check_direct_write(commit, summary)


def _check_job_snapshot(commit: StoreCommit, summary: Json) -> None:
    """CommitRefused for an operation that this kind of job may not commit. This stops a faulty optimizer, or one of
    another version.
    """
    operation = str(summary.get("operation"))
    if commit.job_kind is not None and operation not in commit.job_operations:
        raise CommitRefused(f"a {commit.job_kind} job does not {operation} on the {commit.role} store of a keyed table")


def check_new_deletes(commit: StoreCommit, brought: NewDeletes) -> None:
    """CommitRefused for delete files that the store does not take. It reads the files themselves, because a summary
    may be wrong.
    """
    if brought.equality:
        raise _refuse_equality_deletes(commit)
    operations = {u["snapshot"].get("summary", {}).get("operation") for u in commit.updates if "snapshot" in u}
    if brought.positions and (commit.role is RelationKind.CHANGE or operations & {"append", None}):
        raise CommitRefused(
            f"the commit to the {commit.role} store says that it appends, and brings delete files",
            hint="write deletes as rows with _op = 'D', or use firn.spark.delete",
        )


def _refuse_equality_deletes(commit: StoreCommit) -> CommitRefused:
    return CommitRefused(
        f"equality deletes are not allowed on the {commit.role} store of a keyed table: many engines cannot read them",
        hint="append changes with _op = 'U' or 'D' to the change store instead, which upserts by the key; "
        "Flink may upsert into the keyed table's own name",
    )


def _check_change_snapshot(commit: StoreCommit, summary: Json) -> None:
    operation = summary.get("operation")
    if operation == "append":
        check_names_batch(commit.base.get("properties") or {}, summary)
        return
    if operation == "delete" and commit.job_kind in _CLEANING:
        if read_number(summary, "total-records") < commit.keyed.pending_rows:
            raise CommitRefused("the clean would drop changes that are not merged yet")
        return
    if operation == "replace" and commit.job_kind in _PACKING:
        _check_packed_rows(commit, summary)
        return
    raise CommitRefused(
        f"{operation} is not allowed on a change store: it takes appended changes only",
        hint=f"write deletes as rows with {'_op'} = 'D', or use firn.spark.delete",
    )


def _check_packed_rows(commit: StoreCommit, summary: Json) -> None:
    """CommitRefused unless packed files have as many rows as the files that they replace."""
    added, removed = read_number(summary, "added-records"), read_number(summary, "deleted-records")
    if added != removed or read_number(summary, "total-records") < commit.keyed.pending_rows:
        raise CommitRefused(f"the packed files have {added} rows, those that they replace {removed}")


def _check_merge(commit: StoreCommit, snapshot: Json, summary: Json) -> None:
    """CommitRefused unless the merge follows docs/protocols.md, rule 1.1, and `through` names a real state of the
    change store.
    """
    if commit.job_kind not in _MERGING:
        raise CommitRefused("only a merge job may move the watermark")
    parent = snapshot.get("parent-snapshot-id")
    if summary.get(MERGED_BASE, "none") != ("none" if parent is None else str(parent)):
        raise CommitRefused("the base store has changed since the merge read it")
    start, through = _read_sequence_number(summary, MERGED_FROM), _read_sequence_number(summary, MERGED_THROUGH)
    if start != read_watermark(commit.base):
        raise CommitRefused(f"the merge began at watermark {start}, the table stands at {read_watermark(commit.base)}")
    read = _find_on_main(commit.change, summary.get(MERGED_CHANGE))
    if through < start or read != through:
        raise CommitRefused(
            f"{MERGED_THROUGH}={through} is not the sequence number of the change snapshot that was merged"
        )


def _check_no_appends_since(commit: StoreCommit, summary: Json) -> None:
    """CommitRefused if changes arrived since a ttl job read the change store, and they depend on rows of base.

    With a sequence field, or on an insert-only table, a deleted row may have beaten a change that the job has not seen.
    Without the row the change would take effect. A partial change leaves columns as base has them.
    """
    looked_at = summary.get(MERGED_CHANGE) or summary.get(LOOKED_AT_CHANGE)
    spec = commit.keyed.spec
    depends = spec.sequence_field is not None or spec.is_insert_only or is_partial(commit.change)
    if depends and _has_appends_since(commit.change, looked_at):
        raise CommitRefused(
            "new changes arrived while expired rows were being selected", hint="the next ttl job retries"
        )


def _check_key_resolution(snapshot: Json, summary: Json) -> None:
    """CommitRefused if base moved since a job counted its keys: the row that should stay may be gone.

    Pending changes and Hive links do not matter. A change is compared with the highest of its key's rows and replaces
    all that it beats, so the order of this commit and a merge makes no difference. A rebuild from Hive's files leaves
    one row of a key in any case.
    """
    parent = snapshot.get("parent-snapshot-id")
    if summary.get(RESOLVED_BASE) != ("none" if parent is None else str(parent)):
        raise CommitRefused("the base store has changed since its keys were counted", hint="request the job again")


def _check_direct_write(commit: StoreCommit, summary: Json) -> None:
    operation = summary.get("operation")
    if operation == "replace":
        return
    if commit.linked and not (commit.follows_hive and operation == "append"):
        raise CommitRefused(
            f"{operation} on the base store of a table that is linked to Hive: when Hive overwrites a partition it is "
            "rebuilt from Hive's files and the change store alone, and this write would be lost",
            hint="write to the change store, or use firn.spark.upsert and firn.spark.delete",
        )
    if operation == "append":
        return
    # A ttl job has checked that no pending change has a row that it deletes (catalog.retention.ttl). Later changes win,
    # unless a sequence field decides: see _check_no_appends_since.
    if commit.keyed.pending_commits and commit.job_kind is not JobKind.TTL:
        raise CommitRefused(
            f"merge first: {operation} on the base store while {commit.keyed.pending_rows} changes are pending "
            "would make its result depend on when they are merged",
            hint="run `firn table merge TABLE`, then try again",
        )


def _stamp_update(commit: StoreCommit, update: Json) -> Json:
    action = update.get("action")
    if action == "add-snapshot" and commit.role is RelationKind.BASE:
        snapshot, summary = update["snapshot"], update["snapshot"].get("summary") or {}
        stamp = {MERGED_THROUGH: summary.get(MERGED_THROUGH, str(read_watermark(commit.base)))}
        return {**update, "snapshot": {**snapshot, "summary": {**summary, **stamp}}}
    if action == "add-snapshot":
        return stamp_log(commit.base, commit.change, update)
    if action == "add-schema" and commit.role is RelationKind.CHANGE:
        return {**update, "schema": share_field_ids(update["schema"], last_base_id=commit.base["last-column-id"])}
    return update


def read_watermark(base: Json) -> int:
    """The watermark of a base store's head; 0 before its first snapshot."""
    head = current_snapshot(base)
    return 0 if head is None else _read_sequence_number(head.get("summary") or {}, MERGED_THROUGH)


def _read_sequence_number(summary: Json, key: str) -> int:
    text = str(summary.get(key, "0"))
    if not text.isdecimal() or len(text) > 19:
        raise CommitRefused(f"{key}={shorten(text, 80)!r} is not a sequence number")
    return int(text)


def _has_appends_since(change: Json, snapshot_id: object) -> bool:
    """Whether the change store's main has appends since this snapshot; True also if its history does not tell."""
    current = current_snapshot(change)
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in change.get("snapshots") or ()}
    while current is not None and str(current["snapshot-id"]) != str(snapshot_id):
        if (current.get("summary") or {}).get("operation") == "append":
            return True
        current = by_id.get(current.get("parent-snapshot-id"))
    return current is None and snapshot_id != "none"


def _find_on_main(change: Json, snapshot_id: object) -> int | None:
    """The sequence number of a snapshot on the change store's main branch; 0 for the empty store, None for any other
    snapshot.
    """
    current = current_snapshot(change)
    if snapshot_id in (None, "none"):
        return 0 if current is None else None
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in change.get("snapshots") or ()}
    while current is not None:
        if str(current["snapshot-id"]) == str(snapshot_id):
            return int(current["sequence-number"])
        current = by_id.get(current.get("parent-snapshot-id"))
    return None
