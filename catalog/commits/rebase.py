"""Which commit is a plain append that may be put onto a newer snapshot instead of being refused (decision 22).

An append that has lost a race would be refused, read again and sent again by its own client: Iceberg's writers validate
nothing when they try an append again, so whoever puts it onto the new head comes to the same table. What may depend on
the state that its client has seen is refused as ever: nothing here guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.errors import CatalogError, RequirementFailed
from catalog.history.commit import TableCommit
from catalog.history.lineage import Lineage
from catalog.history.table_stats import add_totals
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, ref_of, schema_by_id, sequence_number, snapshot_by_id
from catalog.iceberg.requirements import check_requirements
from catalog.iceberg.structure import FIRST_VERSION_WITH_ROW_LINEAGE
from catalog.iceberg.summaries import TOTALS
from catalog.keyed.spec import BATCH_ID, WRITER_ID

REBASE = "firn.append.rebase"
"""The table property that allows it: `true`, or off."""
REBASED_FROM = "firn.rebased-from"
"""In the summary of a rebased snapshot: the manifest list that its client has sent, by which a repetition is known."""

_SNAPSHOT_KEYS = frozenset(
    {
        *("snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "summary"),
        *("schema-id", "first-row-id", "added-rows"),
    }
)
_COUNTED = frozenset(
    {
        *("added-data-files", "added-records", "added-files-size", "changed-partition-count"),
        *("partition-summaries-included", "manifests-created", "manifests-kept", "manifests-replaced"),
        "entries-processed",
    }
)
_ENGINE = frozenset(
    {"engine-name", "engine-version", "iceberg-version", "app-id", "app-name", "spark.app.id", "trino_query_id"}
)
_KNOWN = _COUNTED | _ENGINE | TOTALS.keys() | {"operation", WRITER_ID, BATCH_ID}
"""What a plain append says of itself. Any other key may be a committer's memory of what it has committed (Flink's
checkpoint, Kafka Connect's offsets, a streaming query's epoch): such a writer waits for the refusal to look again.
Firn's own writer and batch may be named: the commit's transaction looks for them itself."""
_PARTITION = "partitions."


@dataclass(frozen=True, slots=True, kw_only=True)
class OvertakenAppend:
    """A plain append that another commit has overtaken, and the refusal that it gets if it cannot be rebased."""

    snapshot: Json
    """As its client has made it."""
    ref: Json
    """The update that moves its branch."""
    parent: Json | None
    """The snapshot that it was made on."""
    head: Json | None
    """The one that its branch holds now."""
    refusal: RequirementFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class RebasedManifestList:
    """A manifest list of an append's manifests and its new parent's, still to be written."""

    location: str
    data: bytes
    kept: int
    """How many of its manifests are the parent's."""
    row_ids: int
    """How many row ids it has given out."""


def find_overtaken_append(metadata: Json, change: TableCommit) -> OvertakenAppend | None:
    """The append that this commit is, if it is nothing else, was overtaken, and its table wants it to be rebased."""
    if str(metadata.get("properties", {}).get(REBASE, "")).lower() != "true":
        return None
    snapshot, ref = _plain_append(change.updates) or ({}, {})
    if not snapshot or snapshot_by_id(metadata, snapshot["snapshot-id"]) is not None or not _fits(metadata, snapshot):
        return None
    refusal = _overtaken(metadata, change.requirements, snapshot, ref["ref-name"])
    if refusal is None:
        return None
    now = ref_of(metadata, ref["ref-name"])
    parent_id, head_id = snapshot.get("parent-snapshot-id"), None if now is None else now["snapshot-id"]
    if (now or ref)["type"] != "branch" or not Lineage.of(metadata).descends(head_id, ancestor=parent_id):
        return None
    return OvertakenAppend(
        snapshot=snapshot,
        ref=ref,
        parent=None if parent_id is None else snapshot_by_id(metadata, parent_id),
        head=None if head_id is None else snapshot_by_id(metadata, head_id),
        refusal=refusal,
    )


def rebase_append(metadata: Json, append: OvertakenAppend, joined: RebasedManifestList) -> list[Json]:
    """The updates that put the append onto its branch's head, with all numbers as the table counts them now."""
    snapshot = {
        **append.snapshot,
        "manifest-list": joined.location,
        "timestamp-ms": max(append.snapshot["timestamp-ms"], metadata["last-updated-ms"]),
        "summary": _summary(append, joined),
        "parent-snapshot-id": None if append.head is None else append.head["snapshot-id"],
    }
    if append.head is None:
        del snapshot["parent-snapshot-id"]
    if metadata["format-version"] > 1:
        snapshot["sequence-number"] = metadata["last-sequence-number"] + 1
    if metadata["format-version"] >= FIRST_VERSION_WITH_ROW_LINEAGE:
        snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": joined.row_ids}
    # How long the branch is kept is what the table says now, not what the client read.
    kept = ref_of(metadata, append.ref["ref-name"]) or append.ref
    moved = {**kept, "action": "set-snapshot-ref", "ref-name": append.ref["ref-name"]}
    return [{"action": "add-snapshot", "snapshot": snapshot}, {**moved, "snapshot-id": snapshot["snapshot-id"]}]


def _plain_append(updates: Sequence[Json]) -> tuple[Json, Json] | None:
    """The snapshot and the move of a branch, when the updates are these two and the snapshot only adds data."""
    if [update.get("action") for update in updates] != ["add-snapshot", "set-snapshot-ref"]:
        return None
    snapshot, ref = updates[0]["snapshot"], updates[1]
    summary = snapshot.get("summary") or {}
    plain = (
        snapshot.keys() <= _SNAPSHOT_KEYS
        and summary.get("operation") == "append"
        and all(key in _KNOWN or key.startswith(_PARTITION) for key in summary)
        and ref.get("type") == "branch"
        and ref.get("snapshot-id") == snapshot["snapshot-id"]
    )
    return (snapshot, ref) if plain else None


def _fits(metadata: Json, snapshot: Json) -> bool:
    """Whether the files can be the table's still: of its format version, under a schema that has only grown since."""
    version = metadata["format-version"]
    if version > 1 and not sequence_number(snapshot):
        return False
    if (version >= FIRST_VERSION_WITH_ROW_LINEAGE) != (snapshot.get("first-row-id") is not None):
        return False
    try:
        written = schema_by_id(metadata, snapshot.get("schema-id", -1))
    except CatalogError:
        return False
    return _has_only_grown(written, current_schema(metadata))


def _has_only_grown(written: Json, current: Json) -> bool:
    """Whether all columns are as they were, and old files can be read with those that came since."""
    were = {field["id"]: field for field in written["fields"]}
    are = {field["id"]: field for field in current["fields"]}
    came = [field for field_id, field in are.items() if field_id not in were]
    return (
        all(are.get(field_id) == field for field_id, field in were.items())
        and all(not field.get("required") or field.get("initial-default") is not None for field in came)
        and set(written.get("identifier-field-ids") or ()) == set(current.get("identifier-field-ids") or ())
    )


def _overtaken(metadata: Json, requirements: Sequence[Json], snapshot: Json, branch: str) -> RequirementFailed | None:
    """The refusal of an append that fails by nothing but another commit's coming first."""
    about_head = [
        one for one in requirements if one.get("type") == "assert-ref-snapshot-id" and one.get("ref") == branch
    ]
    said = [one.get("snapshot-id") for one in about_head]
    if said != [snapshot.get("parent-snapshot-id")]:
        return None
    try:
        check_requirements(metadata, [one for one in requirements if one not in about_head])
    except CatalogError:
        return None
    try:
        check_requirements(metadata, about_head)
    except RequirementFailed as refusal:
        return refusal
    return _behind(metadata, snapshot)


def _behind(metadata: Json, snapshot: Json) -> RequirementFailed | None:
    """The branch has not moved, but a commit on another one has taken the table's next numbers."""
    number, row_id = sequence_number(snapshot), snapshot.get("first-row-id") or 0
    last, next_row_id = metadata.get("last-sequence-number") or 0, metadata.get("next-row-id") or 0
    if (metadata["format-version"] > 1 and number <= last) or row_id < next_row_id:
        return RequirementFailed(
            f"Validation failed, please retry: sequence number {number} and first row id {row_id} are taken: "
            f"the table stands at {last} and {next_row_id}"
        )
    return None


def _summary(append: OvertakenAppend, joined: RebasedManifestList) -> dict[str, str]:
    said: Mapping[str, Any] = append.snapshot["summary"]
    kept = {"manifests-kept": str(joined.kept)} if "manifests-kept" in said else {}
    counted = {key: value for key, value in said.items() if key not in TOTALS}
    from_list = {REBASED_FROM: append.snapshot["manifest-list"]}
    return {**counted, **kept, **add_totals(said, append.head), **from_list}
