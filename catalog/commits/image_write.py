"""A commit that an engine sends under a keyed table's own name, to become changes (docs/protocols.md, rule 5.7).

Engines see an image, so the commit's snapshot is a child of an image's. The server takes only its new files, and
appends them to the change store. There the snapshot keeps its id, and names the manifest list that the engine sent. So
a repeated request is recognized as any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from catalog.commits.commit_rules import list_added_snapshots
from catalog.commits.rebase import REBASED_FROM
from catalog.errors import Invalid
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN
from catalog.iceberg.summaries import TOTALS
from catalog.keyed.spec import BATCH_ID, POSITION, POSITION_FROM, WRITER_EPOCH, WRITER_ID
from catalog.keyed.streams import read_checkpoint
from catalog.names import TableName

_ALLOWED = frozenset({"add-snapshot", "set-snapshot-ref", "set-statistics", "set-partition-statistics"})
"""Engines add statistics to their writes. They would describe an image's snapshot, and no image keeps them."""
_COUNTS = ("added-", "removed-", "deleted-", "total-", "manifests-", "changed-partition-count", "partitions.")
_OF_WRITER = frozenset({WRITER_ID, BATCH_ID, WRITER_EPOCH, POSITION_FROM, POSITION})
_OPERATIONS = frozenset({"append", "overwrite", "delete"})
_INSTEAD = (
    "INSERT INTO it and append upsert, engines that merge on read may UPDATE, DELETE and MERGE, and others may delete "
    "whole files, such as those of a partition; or call firn.spark.upsert or firn.spark.delete, or append rows with "
    "_op 'U' or 'D' to {name}.change"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSnapshot:
    """The snapshot of a commit under a keyed table's own name, as the engine sent it.

    `before` are further snapshots of the same commit, oldest first: some engines delete in one, and append in the next.
    """

    id: int
    parent_id: int | None
    manifest_list: str
    operation: str
    summary: Json
    before: tuple[SentSnapshot, ...] = ()

    @property
    def chain(self) -> tuple[SentSnapshot, ...]:
        """All snapshots of the commit, oldest first."""
        return *self.before, self

    @property
    def read_id(self) -> int | None:
        """The snapshot that the commit is based on."""
        return self.chain[0].parent_id

    def describe(self) -> dict[str, str]:
        """The entries for the summary of the snapshot in the change store; counts are the server's own."""
        engines = {name: str(text) for name, text in self.summary.items() if _is_of_engine(name)}
        return {**engines, REBASED_FROM: self.manifest_list}

    def as_sent(self) -> Json:
        """The snapshot with what reading its files needs."""
        return {"snapshot-id": self.id, "manifest-list": self.manifest_list}


def identify_commit(sent: SentSnapshot, files: Iterable[str]) -> dict[str, str]:
    """The writer and the batch of a stream's commit, for the snapshot's summary; nothing for other commits.

    The files identify the commit. The job and the checkpoint do not: two jobs may have the same id, and every batch job
    of Flink calls its only checkpoint the last one.
    """
    checkpoint = read_checkpoint(sent.summary)
    if checkpoint is None or (WRITER_ID in sent.summary and BATCH_ID in sent.summary):
        return {}
    digest = hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()
    batch = digest if checkpoint.number is None else f"{checkpoint.number} {digest}"
    return {WRITER_ID: checkpoint.stream, BATCH_ID: batch}


def find_sent_snapshot(name: TableName, updates: Sequence[Json]) -> SentSnapshot | None:
    """The snapshot that the updates make the head of main, with those before it; None when they change no data.

    Invalid for anything besides one line of snapshots on main. No CommitRefused, which engines answer with retries.
    """
    snapshots = list_added_snapshots(updates)
    if not snapshots:
        return None
    sent = [_parse_snapshot(snapshot) for snapshot in snapshots]
    for snapshot in sent:
        if snapshot.operation not in _OPERATIONS:
            raise refuse_operation(name, snapshot.operation)
    if any(later.parent_id != earlier.id for earlier, later in pairwise(sent)):
        raise Invalid(f"the snapshots of a commit to {name} have to be one line: each is the parent of the next")
    _check_updates(name, sent[-1], updates)
    return replace(sent[-1], before=tuple(sent[:-1]))


def refuse_operation(name: TableName, operation: str) -> Invalid:
    """The refusal of an operation that a keyed table does not take."""
    return Invalid(f"{name} is a keyed table, and takes no {operation}", hint=_INSTEAD.format(name=name))


def _check_updates(name: TableName, head: SentSnapshot, updates: Sequence[Json]) -> None:
    moves = [update for update in updates if update["action"] == "set-snapshot-ref"]
    is_to_main = bool(moves) and all(move.get("ref-name") == MAIN for move in moves)
    if not is_to_main or moves[-1].get("snapshot-id") != head.id:
        raise Invalid(f"a commit to {name} has to end as the head of main: a keyed table has no branches")
    others = {update["action"] for update in updates if not _sets_name_mapping(update)} - _ALLOWED
    if others:
        raise Invalid(f"a commit to {name} that adds rows cannot also {', '.join(sorted(others))}", hint="commit twice")


def _sets_name_mapping(update: Json) -> bool:
    """Whether the update only maps names to field ids. iceberg-go adds it to its deletes, whose files have field ids
    and need no mapping. So the server ignores it.
    """
    properties = update.get("updates")
    return update["action"] == "set-properties" and isinstance(properties, dict) and {*properties} == {NAME_MAPPING}


def _parse_snapshot(snapshot: Json) -> SentSnapshot:
    summary = snapshot.get("summary") or {}
    snapshot_id, manifest_list, parent = (
        snapshot.get(key) for key in ("snapshot-id", "manifest-list", "parent-snapshot-id")
    )
    if not isinstance(snapshot_id, int) or not isinstance(manifest_list, str) or not isinstance(summary, dict):
        raise Invalid("the snapshot needs an id, a manifest list and a summary")
    if snapshot.get("key-id") is not None:
        raise Invalid("the manifest list is encrypted, and the server has no key to read it")
    return SentSnapshot(
        id=snapshot_id,
        parent_id=parent,
        manifest_list=manifest_list,
        operation=str(summary.get("operation")),
        summary=summary,
    )


def align_spec(base: Json, change: Json) -> list[Json]:
    """The updates that give the change store base's partition spec, in which engines write; none if it has it."""
    wanted = _find_spec(base, base["default-spec-id"])
    if _fields_of(_find_spec(change, change["default-spec-id"])) == _fields_of(wanted):
        return []
    same = next((spec for spec in change["partition-specs"] if _fields_of(spec) == _fields_of(wanted)), None)
    if same is not None:
        return [{"action": "set-default-spec", "spec-id": same["spec-id"]}]
    return [
        {"action": "add-spec", "spec": {"fields": wanted["fields"]}},
        {"action": "set-default-spec", "spec-id": -1},
    ]


def _find_spec(metadata: Json, spec_id: int) -> Json:
    return next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == spec_id)


def _fields_of(spec: Json) -> list[tuple[Any, ...]]:
    return [(field["source-id"], field["transform"]) for field in spec["fields"]]


def _is_of_engine(name: str) -> bool:
    """Whether a summary's entry says something of the writer, and not of the table or of Firn's own jobs."""
    is_firns = name.startswith("firn.") and name not in _OF_WRITER
    return not is_firns and name not in TOTALS and name != "operation" and not name.startswith(_COUNTS)
