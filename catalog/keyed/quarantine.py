"""The quarantine of a keyed table: one row for each record of its log that is no change (docs/protocols.md, rule 6.11).

It is an Iceberg table beside the stores, which the server creates at the first bad record.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from catalog.errors import Invalid
from catalog.iceberg.json import Json, child
from catalog.iceberg.reading import MAIN, ref_snapshot_id
from catalog.iceberg.table import build_table
from catalog.keyed.spec import QUARANTINE

_ALLOWED_UPDATES = frozenset(
    {
        "add-snapshot",
        "set-snapshot-ref",
        "remove-snapshot-ref",
        "remove-snapshots",
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
    }
)
_SETTINGS = ("firn.optimize.", "firn.expire.", "firn.rewrite.", "firn.deletes.", "firn.manifests.")
_OF_COLUMNS = frozenset({"firn.rewrite.strategy", "firn.rewrite.sort-order", "firn.rewrite.filter"})
_COLUMNS: Sequence[tuple[str, str | None]] = (
    ("topic", "string"),
    ("topic_id", "string"),
    ("partition", "int"),
    ("offset", "long"),
    ("timestamp", "timestamptz"),
    ("key", "binary"),
    ("value", "binary"),
    ("headers", None),
    ("reason", "string"),
    ("column", "string"),
    ("at", "timestamptz"),
)
_PROPERTIES = {
    # Only Firn deletes files, as in the stores.
    "gc.enabled": "false",
    # A retry removes rows while drains append: an append is no conflict, and readers see no delete files.
    "write.delete.mode": "copy-on-write",
    "write.delete.isolation-level": "snapshot",
    # Keys and values may be large, and nobody looks for them by their bounds.
    "write.metadata.metrics.column.key": "none",
    "write.metadata.metrics.column.value": "none",
}


def build_quarantine_metadata(location: str, *, now_ms: int) -> Json:
    """Build the metadata of a new quarantine."""
    fields = [
        {"id": number, "name": name, "required": False, "type": kind or _build_headers()}
        for number, (name, kind) in enumerate(_COLUMNS, start=1)
    ]
    return build_table(
        uuid=str(uuid4()),
        location=location,
        schema={"type": "struct", "schema-id": 0, "fields": fields},
        partition_spec=None,
        sort_order=None,
        properties=_PROPERTIES,
        now_ms=now_ms,
    )


def _build_headers() -> Json:
    fields = [
        {"id": 101, "name": "key", "required": False, "type": "string"},
        {"id": 102, "name": "value", "required": False, "type": "binary"},
    ]
    element = {"type": "struct", "fields": fields}
    return {"type": "list", "element-id": 100, "element-required": False, "element": element}


def has_quarantine_setting(key: str) -> bool:
    """Whether this setting of a keyed table also applies to its quarantine: it names no column, and deletes no row."""
    return key.startswith(_SETTINGS) and key not in _OF_COLUMNS


def check_quarantine_commit(metadata: Json, updates: Sequence[Json]) -> None:
    """Raise Invalid for a commit that changes more than rows: drains and retries rely on columns and properties.

    Main only moves on (docs/protocols.md, rule 6.13). Set back, the quarantine would have records again that a retry
    has sent, or lack records that the drain has passed.
    """
    refused = sorted({str(update.get("action")) for update in updates} - _ALLOWED_UPDATES)
    if refused:
        raise Invalid(
            f"a {QUARANTINE} keeps its columns and properties: {refused[0]} is refused",
            hint="delete rows, or drop all of them: `firn quarantine drop`",
        )
    for update in updates:
        if update.get("ref-name") == MAIN and not _moves_on(metadata, updates, update):
            raise Invalid(
                f"a {QUARANTINE} cannot be set back: it would have records again that the table has, or lose records "
                "that the drain has passed",
                hint="read the older snapshot with VERSION AS OF, and insert the rows that are to be retried",
            )


def _moves_on(metadata: Json, updates: Sequence[Json], update: Json) -> bool:
    """Whether an update of main keeps its head, or sets it to a descendant that the commit adds."""
    added = [child(other, "snapshot", "add-snapshot") for other in updates if other.get("action") == "add-snapshot"]
    parents = {snapshot.get("snapshot-id"): snapshot.get("parent-snapshot-id") for snapshot in added}
    head, target = ref_snapshot_id(metadata, MAIN), update.get("snapshot-id")
    for _ in added:
        if target == head or target not in parents:
            break
        target = parents[target]
    return update["action"] == "set-snapshot-ref" and target == head
