"""Streams that commit a checkpoint at a time: the last commit of each is listed with a keyed table's images.

Flink writes its job, its operator and the number of the checkpoint into the summary of each snapshot. Iceberg's sink
for Kafka Connect writes the offsets of its control topic, under a name that has the topic and the group of the
connector. A stream that restarts looks for its entries in the head's ancestors, and commits again what it does not find
(docs/protocols.md, rule 5.11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.keyed.spec import BATCH_ID

LISTED_STREAMS = 100
"""A served image lists the last commits of at most so many streams: of those that have committed most recently."""
_JOB, _OPERATOR, _CHECKPOINT = "flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"
_CONNECT, _OFFSETS = "kafka.connect.", "kafka.connect.offsets."
_OF_HEAD = ("sequence-number", "timestamp-ms", "manifest-list", "schema-id", "first-row-id", "added-rows")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that a snapshot has committed."""

    stream: str
    number: int | None = None
    """The number that Flink gives it; Kafka Connect gives none."""


def read_checkpoint(summary: Mapping[str, object]) -> Checkpoint | None:
    """The checkpoint that the summary of a snapshot names; None if it names none."""
    number = str(summary.get(_CHECKPOINT, ""))
    if _JOB in summary and number.isdecimal():
        return Checkpoint(f"flink {summary[_JOB]} {summary.get(_OPERATOR, '')}".rstrip(), int(number))
    offsets = next((name for name in sorted(summary) if name.startswith(_OFFSETS)), None)
    return None if offsets is None else Checkpoint(f"kafka-connect {offsets.removeprefix(_OFFSETS)}")


def list_last_commits(image: Json, change: Json) -> Json:
    """An image's metadata in which the head descends from the last commit of each stream.

    `change` is the change store's metadata, which may be newer than the image. The listed snapshots have the ids under
    which the streams have sent them, and show what the head shows.
    """
    head = current_snapshot(image)
    commits = [] if head is None else list(_find_last_commits(change))
    if head is None or not commits:
        return image
    shown = {name: head[name] for name in _OF_HEAD if name in head}
    ids = [commit["snapshot-id"] for commit in commits]
    parents = [*ids[1:], head.get("parent-snapshot-id")]
    listed = [
        _with_parent({"snapshot-id": commit["snapshot-id"], **shown, "summary": _describe(commit)}, parent)
        for commit, parent in zip(commits, parents, strict=True)
    ]
    older = [snapshot for snapshot in image["snapshots"] if snapshot["snapshot-id"] != head["snapshot-id"]]
    return {**image, "snapshots": [*older, *reversed(listed), _with_parent(head, ids[0])]}


def list_commits_since(stream: str, change: Json, sequence_number: int) -> Iterator[Json]:
    """The snapshots on main with which a stream has committed after a sequence number, newest first."""
    for snapshot in _list_main(change):
        if snapshot.get("sequence-number", 0) <= sequence_number:
            return
        checkpoint = read_checkpoint(snapshot.get("summary") or {})
        if checkpoint is not None and checkpoint.stream == stream:
            yield snapshot


def list_direct_commits(change: Json, *, most_jobs: int, most_commits: int) -> Mapping[str, Sequence[Json]]:
    """The newest snapshots that each job of Flink has committed to the change store itself, newest first, by its id.

    Commits under the keyed table's own name are left out: the server has put a batch into their summaries.
    """
    commits = dict[str, list[Json]]()
    for snapshot in _list_main(change):
        summary = snapshot.get("summary") or {}
        if _JOB not in summary or BATCH_ID in summary:
            continue
        job = str(summary[_JOB])
        if job not in commits and len(commits) == most_jobs:
            continue
        of_job = commits.setdefault(job, [])
        if len(of_job) < most_commits:
            of_job.append(snapshot)
    return commits


def _find_last_commits(change: Json) -> Iterator[Json]:
    """The last snapshot of each stream on main, newest first."""
    seen = set[str]()
    for snapshot in _list_main(change):
        checkpoint = read_checkpoint(snapshot.get("summary") or {})
        if checkpoint is not None and checkpoint.stream not in seen:
            seen.add(checkpoint.stream)
            yield snapshot
        if len(seen) == LISTED_STREAMS:
            return


def _list_main(metadata: Json) -> Iterator[Json]:
    """The snapshots on main, newest first."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or ()}
    snapshot = current_snapshot(metadata)
    while snapshot is not None:
        yield snapshot
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))


def _describe(commit: Json) -> dict[str, object]:
    return {"operation": "overwrite", **{name: text for name, text in commit["summary"].items() if _is_of_stream(name)}}


def _is_of_stream(name: str) -> bool:
    return name in (_JOB, _OPERATOR, _CHECKPOINT) or name.startswith(_CONNECT)


def _with_parent(snapshot: Json, parent: int | None) -> Json:
    others = {name: value for name, value in snapshot.items() if name != "parent-snapshot-id"}
    return others if parent is None else {**others, "parent-snapshot-id": parent}
