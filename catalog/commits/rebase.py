"""Rebase: a plain append may move onto a newer snapshot instead of being refused (decision 22).

A client whose append loses a race reads again and sends it again. Iceberg's writers validate nothing on that second
attempt, so a rebase by the server gives the same table. The server refuses commits that may depend on the state their
client has read.
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
from catalog.keyed.spec import BATCH_ID, LOG_TOPIC_ID, POSITION, POSITION_FROM, WRITER_EPOCH, WRITER_ID

REBASE = "firn.append.rebase"
"""The table property that allows rebases: `true`, or off."""
REBASED_FROM = "firn.rebased-from"
"""The summary key of a rebased snapshot with the manifest list that its client sent. It
identifies a repeated request.
"""

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
_PROGRESS = frozenset({WRITER_ID, BATCH_ID, WRITER_EPOCH, POSITION_FROM, POSITION, LOG_TOPIC_ID})
_KNOWN = _COUNTED | _ENGINE | _PROGRESS | TOTALS.keys() | {"operation"}
"""The summary keys of a plain append. Any other key may be a committer's record of its progress (Flink's checkpoint,
Kafka Connect's offsets, a streaming query's epoch). Such a writer waits for the refusal to check again. Firn's own
writer, batch and positions are allowed, because the commit's transaction checks them itself.
"""
_PARTITION = "partitions."


@dataclass(frozen=True, slots=True, kw_only=True)
class OvertakenAppend:
    """A plain append overtaken by another commit, and its refusal if it cannot be rebased."""

    snapshot: Json
    """As its client created it."""
    ref: Json
    """The update that moves its branch."""
    parent: Json | None
    """The snapshot that the client based it on."""
    head: Json | None
    """The current head of its branch."""
    refusal: RequirementFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class RebasedManifestList:
    """A manifest list with an append's manifests and its new parent's, not written yet."""

    location: str
    data: bytes
    kept: int
    """The number of manifests from the parent."""
    row_ids: int
    """The number of row ids that it assigns."""


def find_overtaken_append(
    metadata: Json, change: TableCommit, *, needs_property: bool = True
) -> OvertakenAppend | None:
    """The commit as an overtaken append; None if it is more than an append, was not overtaken, or its table does not
    allow rebases. Change stores do without the property.
    """
    if needs_property and str(metadata.get("properties", {}).get(REBASE, "")).lower() != "true":
        return None
    snapshot, ref = _read_plain_append(change.updates) or ({}, {})
    if (
        not snapshot
        or snapshot_by_id(metadata, snapshot["snapshot-id"]) is not None
        or not _fits_table(metadata, snapshot)
    ):
        return None
    refusal = _find_refusal(metadata, change.requirements, snapshot, ref["ref-name"])
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
    """The updates that move the append onto its branch's head, with the table's current numbers."""
    snapshot = {
        **append.snapshot,
        "manifest-list": joined.location,
        "timestamp-ms": max(append.snapshot["timestamp-ms"], metadata["last-updated-ms"]),
        "summary": _build_summary(append, joined),
        "parent-snapshot-id": None if append.head is None else append.head["snapshot-id"],
    }
    if append.head is None:
        del snapshot["parent-snapshot-id"]
    if metadata["format-version"] > 1:
        snapshot["sequence-number"] = metadata["last-sequence-number"] + 1
    if metadata["format-version"] >= FIRST_VERSION_WITH_ROW_LINEAGE:
        snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": joined.row_ids}
    # The branch's retention comes from the current table, not from the client.
    kept = ref_of(metadata, append.ref["ref-name"]) or append.ref
    moved = {**kept, "action": "set-snapshot-ref", "ref-name": append.ref["ref-name"]}
    return [{"action": "add-snapshot", "snapshot": snapshot}, {**moved, "snapshot-id": snapshot["snapshot-id"]}]


def _read_plain_append(updates: Sequence[Json]) -> tuple[Json, Json] | None:
    """The snapshot and the branch move, if the updates are these two and the snapshot
    only adds data; otherwise None.
    """
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


def _fits_table(metadata: Json, snapshot: Json) -> bool:
    """Whether the files still fit the table: its format version, and a schema that has only grown since."""
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
    """Whether all old columns are unchanged, and old files are readable with the new ones."""
    were = {field["id"]: field for field in written["fields"]}
    are = {field["id"]: field for field in current["fields"]}
    added = [field for field_id, field in are.items() if field_id not in were]
    return (
        all(are.get(field_id) == field for field_id, field in were.items())
        and all(not field.get("required") or field.get("initial-default") is not None for field in added)
        and set(written.get("identifier-field-ids") or ()) == set(current.get("identifier-field-ids") or ())
    )


def _find_refusal(
    metadata: Json, requirements: Sequence[Json], snapshot: Json, branch: str
) -> RequirementFailed | None:
    """The refusal of an append that fails only because another commit came first; None otherwise."""
    about_head = [
        requirement
        for requirement in requirements
        if requirement.get("type") == "assert-ref-snapshot-id" and requirement.get("ref") == branch
    ]
    expected_ids = [requirement.get("snapshot-id") for requirement in about_head]
    if expected_ids != [snapshot.get("parent-snapshot-id")]:
        return None
    try:
        check_requirements(metadata, [requirement for requirement in requirements if requirement not in about_head])
    except CatalogError:
        return None
    try:
        check_requirements(metadata, about_head)
    except RequirementFailed as refusal:
        return refusal
    return _find_number_refusal(metadata, snapshot)


def _find_number_refusal(metadata: Json, snapshot: Json) -> RequirementFailed | None:
    """The refusal if the branch has not moved, but a commit on another branch took the table's next numbers."""
    number, row_id = sequence_number(snapshot), snapshot.get("first-row-id") or 0
    last, next_row_id = metadata.get("last-sequence-number") or 0, metadata.get("next-row-id") or 0
    if (metadata["format-version"] > 1 and number <= last) or row_id < next_row_id:
        return RequirementFailed(
            f"Validation failed, please retry: sequence number {number} and first row id {row_id} are taken: "
            f"the table stands at {last} and {next_row_id}"
        )
    return None


def _build_summary(append: OvertakenAppend, joined: RebasedManifestList) -> dict[str, str]:
    summary: Mapping[str, Any] = append.snapshot["summary"]
    kept = {"manifests-kept": str(joined.kept)} if "manifests-kept" in summary else {}
    counted = {key: value for key, value in summary.items() if key not in TOTALS}
    from_list = {REBASED_FROM: append.snapshot["manifest-list"]}
    return {**counted, **kept, **add_totals(summary, append.head), **from_list}
