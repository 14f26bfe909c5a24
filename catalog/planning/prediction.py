"""What a job of each kind would gain now, from stored statistics alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from catalog.gain import Predicted, seconds
from catalog.job import Job, JobKind
from catalog.planning.facts import TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lies:
    """How a table lies, as far as a scan is concerned."""

    files: int
    bytes: int
    deletes: int


def predicted(
    kind: JobKind, facts: TableFacts, past: Sequence[Job], params: Mapping[str, Any] | None = None
) -> Predicted:
    """What such a job would gain now; kinds that no scan notices change nothing of these quantities."""
    before = _now(facts)
    if kind in _PACKED:
        after, work = _PACKED[kind](facts, before, params or {})
    else:
        after, work = _AFTER[kind](facts, before) if kind in _AFTER else (before, _looked_through(kind, before))
    return Predicted(
        files_before=before.files,
        files_after=max(min(after.files, before.files), 0),
        bytes_before=before.bytes,
        bytes_after=max(min(after.bytes, before.bytes), 0),
        deletes_before=before.deletes,
        deletes_after=max(min(after.deletes, before.deletes), 0),
        work=work,
        seconds=seconds(kind, work, past),
    )


def _now(facts: TableFacts) -> _Lies:
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    return _Lies(
        files=sum(one.data_files for one in stores),
        bytes=sum(one.bytes for one in stores),
        deletes=sum(one.delete_files for one in stores),
    )


def _looked_through(kind: JobKind, before: _Lies) -> int:
    """Statistics, retention and the count of keys read the data; the rest of these kinds reads metadata alone."""
    return before.bytes if kind in (JobKind.STATISTICS, JobKind.TTL, JobKind.KEYS) else 0


def _merged(facts: TableFacts, before: _Lies) -> tuple[_Lies, int]:
    """Changes replace rows of base; how many are new is not known, so base is taken to stay as it is."""
    cleaned, _ = _cleaned(facts, before, left=0)
    pending = 0 if facts.keyed is None else facts.keyed.pending_bytes
    return cleaned, pending + min(facts.stats.bytes, 10 * pending)


def _cleaned(facts: TableFacts, before: _Lies, left: int | None = None) -> tuple[_Lies, int]:
    """Files of change leave; those of what is still pending are taken to be as large as the others."""
    change, keyed = facts.change, facts.keyed
    if change is None or keyed is None:
        return before, 0
    pending = keyed.pending_rows if left is None else left
    share = min(pending / change.records, 1.0) if change.records else 0.0
    return _Lies(
        files=facts.stats.data_files + ceil(change.data_files * share),
        bytes=facts.stats.bytes + ceil(change.bytes * share),
        deletes=facts.stats.delete_files + ceil(change.delete_files * share),
    ), 0


def _rewritten(facts: TableFacts, before: _Lies, params: Mapping[str, Any]) -> tuple[_Lies, int]:
    """What the count of its files says that the job packs; with many deletes their rows go too. One job has a bound."""
    stats, layout = facts.stats, facts.layout
    if layout is None:
        return before, 0
    packing = layout.packing(params)
    work = min(packing.bytes, int(facts.policy["firn.rewrite.max-job-size"]))
    part = work / packing.bytes if packing.bytes else 0.0
    gone = stats.bytes * facts.deleted_share if params.get("because") == "deletes" else 0.0
    return _Lies(
        files=before.files - round(packing.saved_files * part),
        bytes=before.bytes - int(min(gone, packing.bytes) * part),
        deletes=before.deletes - round(packing.delete_files * part),
    ), work


def _compacted(facts: TableFacts, before: _Lies, params: Mapping[str, Any]) -> tuple[_Lies, int]:
    layout = facts.change_layout
    if layout is None:
        return before, 0
    packing = layout.packing(params)
    return _Lies(files=before.files - packing.saved_files, bytes=before.bytes, deletes=before.deletes), packing.bytes


def _packed_deletes(facts: TableFacts, before: _Lies) -> tuple[_Lies, int]:
    """Half of them are left, or one for each data file if these are fewer: which belong together is not known."""
    stats = facts.stats
    left = min(ceil(stats.delete_files / 2), max(stats.data_files, 1), stats.delete_files)
    gone = stats.delete_files - left
    lies = _Lies(files=before.files, bytes=before.bytes, deletes=before.deletes - gone)
    return lies, min(stats.bytes, 20 * (stats.position_deletes + stats.equality_deletes))


_PACKED: Mapping[JobKind, Callable[[TableFacts, _Lies, Mapping[str, Any]], tuple[_Lies, int]]] = {
    JobKind.REWRITE: _rewritten,
    JobKind.COMPACT: _compacted,
}
_AFTER: Mapping[JobKind, Callable[[TableFacts, _Lies], tuple[_Lies, int]]] = {
    JobKind.MERGE: _merged,
    JobKind.CLEAN: _cleaned,
    JobKind.DELETES: _packed_deletes,
}
