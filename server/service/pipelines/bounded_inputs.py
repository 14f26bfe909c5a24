"""Inputs of a bounded run at a chosen time, instead of their newest states (docs/protocols.md, rule 8.14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.commits.writers import Writer
from catalog.errors import Conflict
from catalog.history.change_feed import FeedHistory
from catalog.history.lineage import Lineage
from catalog.jobs.job import Job
from catalog.names import TableName
from catalog.pipelines.bounded import InputCommit, bound_commits
from catalog.pipelines.pipeline import PipelineTable, StoredCheckpoint, StoredPin
from catalog.ports.store import UnitOfWork
from server.service.commit.commit_target import load_metadata
from server.service.pipelines.pin_inputs import InputNow, find_pin
from server.service.tables.metadata_files import MetadataFiles

TO = "to"
"""The parameter of a run's job with the time up to which it takes commits, in ISO 8601."""
_Inputs = Mapping[TableName, InputNow]


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A target whose writer is registered, with the checkpoint at its position."""

    table: PipelineTable
    writer: Writer
    since: StoredCheckpoint | None

    @property
    def goes_on(self) -> bool:
        """Whether a run may compute changes alone: it has a checkpoint of the same query."""
        return self.since is not None and self.since.fingerprint == self.table.definition.fingerprint


@dataclass(frozen=True, slots=True)
class _NewCommits:
    """The newest pin of an input, None for an empty table, and its commits since then."""

    pinned: str | None
    commits: Sequence[InputCommit]


def read_bound(job: Job) -> datetime | None:
    """The time up to which a user wants a run to take commits."""
    return None if TO not in job.params else datetime.fromisoformat(job.params[TO])


def bound_inputs(
    uow: UnitOfWork,
    metadata: MetadataFiles,
    runs: Sequence[RegisteredTable],
    inputs: _Inputs,
    *,
    is_full: bool,
    to: datetime | None = None,
) -> tuple[_Inputs, int]:
    """The locked inputs at the chosen time if the run is bounded, and the number of commits after it.

    One time holds for all tables of a set, not later than `to`. A run that computes all rows takes the newest states:
    that is less work than to compute them now, and their changes later. Conflict with `to`, which nobody overrides.
    """
    bounds = [run.table.definition.max_commits for run in runs if run.table.definition.max_commits is not None]
    if not bounds and to is None:
        return inputs, 0
    if not is_full and all(run.goes_on for run in runs):
        bounded = _bound(uow, metadata, runs, inputs, bounds, to)
        if bounded is not None:
            return bounded
    if to is not None:
        raise Conflict(
            f"the run would compute all rows, of its inputs as they are now, and it may take commits up to {to} only",
            hint="run the table without this time",
        )
    return inputs, 0


def _bound(
    uow: UnitOfWork,
    metadata: MetadataFiles,
    runs: Sequence[RegisteredTable],
    inputs: _Inputs,
    bounds: Sequence[int],
    to: datetime | None,
) -> tuple[_Inputs, int] | None:
    """The inputs at the chosen time; None if the changes since a pin cannot be told."""
    since = [run.since for run in runs if run.since is not None]
    new: dict[TableName, _NewCommits] = {}
    for name, entry in inputs.items():
        commits = _list_new(uow, metadata, entry, since)
        if commits is None:
            return None
        new[name] = commits
    until_ms = None if to is None else int(to.timestamp() * 1_000)
    bounded = bound_commits({name: entry.commits for name, entry in new.items()}, min(bounds, default=None), until_ms)
    if bounded is None:
        return inputs, 0
    versions = {name: bounded.newest[name] or entry.pinned for name, entry in new.items()}
    return {name: _at_version(entry, versions[name]) for name, entry in inputs.items()}, bounded.left


def _list_new(
    uow: UnitOfWork, metadata: MetadataFiles, entry: InputNow, since: Sequence[StoredCheckpoint]
) -> _NewCommits | None:
    """The commits of an input since its pins; None if the changes since a pin cannot be told.

    Of several checkpoints the newest pin counts: no table goes back behind its own one.
    """
    pins = [stored for stored in (find_pin(checkpoint, entry) for checkpoint in since) if stored is not None]
    if not pins or any(_is_of_other(stored, entry) for stored in pins):
        return None
    history = _list_history(uow, metadata, entry, [stored.pin.version for stored in pins])
    places = [_find_place(history, stored.pin.version) for stored in pins]
    known = [place for place in places if place is not None]
    newest_version = history[-1].version if history else None
    if len(known) < len(pins) or newest_version != entry.pin.version:
        return None
    newest = max(known)
    return _NewCommits(history[newest - 1].version if newest else None, history[newest:])


def _list_history(
    uow: UnitOfWork, metadata: MetadataFiles, entry: InputNow, pinned: Sequence[str | None]
) -> list[InputCommit]:
    """The states of an input from which changes can be told, up to its current one, oldest first.

    The transaction has locked the input, so none of them expires before the new pins are stored.
    """
    documents = [load_metadata(metadata, store) for store in entry.stores]
    if entry.keyed is None:
        lineage = Lineage.of(documents[0])
        chain = [lineage.snapshots[key] for key in reversed(lineage.ancestors(entry.snapshot_id))]
        return [InputCommit(str(of["snapshot-id"]), int(of["timestamp-ms"])) for of in chain]
    first = min(int(version or 0) for version in pinned)
    versions = uow.keyed.versions_between(entry.relation.id, first, entry.keyed.version)
    base, change = documents
    history = FeedHistory(name=entry.name, keyed=entry.keyed, base=base, change=change, versions=versions)
    return [
        InputCommit(str(of.version), int(of.committed_at.timestamp() * 1_000))
        for of in versions
        if history.is_readable(of)
    ]


def _is_of_other(stored: StoredPin, entry: InputNow) -> bool:
    """Whether the input was created again since the pin."""
    return (stored.pin.table_uuid, stored.pin.keyed) != (entry.pin.table_uuid, entry.pin.keyed)


def _find_place(history: Sequence[InputCommit], version: str | None) -> int | None:
    """The number of states up to a pinned one, 0 for an empty table; None if the history lacks it."""
    if version is None:
        return 0
    return next((place for place, commit in enumerate(history, 1) if commit.version == version), None)


def _at_version(entry: InputNow, version: str | None) -> InputNow:
    """The input as it was at an earlier version."""
    if entry.keyed is None:
        return replace(entry, snapshot_id=None if version is None else int(version))
    return replace(entry, keyed=replace(entry.keyed, version=int(version or 0)))
