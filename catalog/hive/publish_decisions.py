"""What a publish does with each partition: Hive has it, a job writes it, it waits, or Hive cannot be given it.

Two groups of filters hold partitions back. The first goes by what the last sync and the comparison with Hive's list
show. The second needs a look at Hive as it is now, so it is asked only about partitions that pass the first.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from catalog.files.data_file import FileFormat, LiveFile
from catalog.hive.avro_limits import find_unsupported_fields
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.decision import Decision, Filter, HeldBack, apply_filters, group_held
from catalog.hive.link import HiveLink
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.partition_names import can_name, format_record_name, to_partition_records
from catalog.hive.publishing import PublishComparison, Record, compare_partitions, fingerprint_files
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema

UNNAMEABLE = "unnameable"
"""The filter of partitions whose values Hive cannot have."""
UNREPRESENTABLE_ADVICE = "change these values, or have Hive write there in Parquet or ORC"


class PublishKind(StrEnum):
    """What a publish does with a partition."""

    SAME = "same"
    """Both sides have the same files: there is nothing to write."""
    WRITE = "write"
    WAIT = "wait"
    """It waits for a sync, for a merge, or for time."""
    NEVER = "never"
    """A publish cannot write it until a user changes something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A partition of the table, compared with Hive's."""

    record: Record
    is_same: bool = False
    is_in_hive: bool = True
    """Whether Hive has the partition, so that only its files differ."""


PublishDecision = Decision[PublishKind, Candidate]
PublishFilter = Filter[PublishKind, Candidate]
PublishDecisions = Mapping[str, PublishDecision]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSides:
    """A linked table and its Hive table, as a publish reads them."""

    link: HiveLink
    table: HiveTable
    metadata: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishClassification:
    """A decision about each partition, and the facts that the publish job needs."""

    decisions: PublishDecisions
    formats: Mapping[str, FileFormat]
    """The format of each partition that differs."""
    digests: Mapping[str, str]
    """A digest of the files and columns that each differing partition in Avro is written from."""
    stale_notes: frozenset[str]
    """Partitions with an outdated note of unrepresentable values."""

    @property
    def same(self) -> tuple[str, ...]:
        """Partitions that are the same in Hive, and that no filter holds back."""
        return tuple(sorted(name for name, decision in self.decisions.items() if decision.kind is PublishKind.SAME))

    @property
    def to_write(self) -> dict[str, Record]:
        """Partitions that a job writes; those that Hive already has come first."""
        written = {name: decision for name, decision in self.decisions.items() if decision.kind is PublishKind.WRITE}
        return {name: decision.facts.record for name, decision in written.items()}

    @property
    def held_back(self) -> tuple[HeldBack, ...]:
        """Differing partitions that this publish leaves out, grouped by filter, in the order of the filters."""
        return group_held({name: decision for name, decision in self.decisions.items() if not decision.facts.is_same})

    @property
    def blocked(self) -> str | None:
        """Why a partition cannot be published until a user changes something, and what to do; or None."""
        return explain_never(self.held_back)


def list_candidates(comparison: PublishComparison, columns: Sequence[HiveColumn]) -> dict[str, Candidate]:
    """List every partition under Hive's name, differing ones first; under its values if it has no name in Hive."""
    candidates = {name: Candidate(record=record) for name, record in comparison.differing.items()}
    for record in comparison.unknown:
        name = format_record_name(columns, record) if can_name(columns, record) else repr(record)
        candidates[name] = Candidate(record=record, is_in_hive=False)
    same = sorted(comparison.same)
    return candidates | {name: Candidate(record=(), is_same=True) for name in same}


def build_link_filters(
    link: HiveLink,
    baselines: Mapping[str, PartitionBaseline],
    columns: Sequence[HiveColumn],
    watermark: int,
    lost_since_ns: int,
) -> list[PublishFilter]:
    """Build the first group of filters. Merges have applied a keyed table's changes up to the watermark."""
    wait = PublishKind.WAIT
    return [
        build_unnameable_filter(columns),
        Filter(
            "held-by-sync",
            wait,
            "fix the problem that the last sync names",
            _always(link.held_partitions, "its changes in Hive are not synced"),
        ),
        Filter(
            "just-written",
            wait,
            "a later publish writes it, after added rows are merged, and firn.hive.overwrite-window after an overwrite",
            _always(_just_written(baselines, watermark, lost_since_ns), "Hive has just written to it"),
        ),
    ]


def build_state_filters(
    formats: Mapping[str, FileFormat], metadata: Json, unrepresentable: Mapping[str, str], changed: Collection[str]
) -> list[PublishFilter]:
    """Build the second group: formats that cannot hold the partition's values, and partitions that Hive has `changed`.

    A job has found the `unrepresentable` partitions, and the values of each.
    """
    changes = "Hive has changed it since the last sync"
    return [
        *build_format_filters(formats, metadata, unrepresentable),
        Filter("changed-in-hive", PublishKind.WAIT, "the next sync takes the change over", _always(changed, changes)),
    ]


def build_format_filters(
    formats: Mapping[str, FileFormat], metadata: Json, unrepresentable: Mapping[str, str]
) -> list[PublishFilter]:
    """Build filters for Avro in Hive, which cannot hold some columns of the table or values of some partitions."""
    column = find_unsupported_column(metadata)
    in_avro = (
        [name for name, file_format in formats.items() if file_format is FileFormat.AVRO] if column is not None else []
    )
    never = PublishKind.NEVER
    return [
        Filter(
            "avro-columns",
            never,
            "drop that column, or have Hive write it in Parquet or ORC: ALTER TABLE … PARTITION … SET FILEFORMAT, then "
            "INSERT OVERWRITE",
            _always(in_avro, f"Hive has Avro there, which cannot hold {column}"),
        ),
        Filter(
            "avro-values",
            never,
            UNREPRESENTABLE_ADVICE,
            lambda _: {
                name: f"Hive would read otherwise from Avro: {reason}" for name, reason in unrepresentable.items()
            },
        ),
    ]


def build_unnameable_filter(columns: Sequence[HiveColumn]) -> PublishFilter:
    """Build the filter of partitions that Hive cannot have, such as empty texts, which are null there."""

    def find(candidates: Mapping[str, Candidate]) -> dict[str, str]:
        unknown = {
            name: candidate for name, candidate in candidates.items() if not (candidate.is_same or candidate.is_in_hive)
        }
        return {
            name: "Hive cannot have these partition values"
            for name, candidate in unknown.items()
            if not can_name(columns, candidate.record)
        }

    advice = "write their rows to other partitions, or delete them"
    return Filter(UNNAMEABLE, PublishKind.NEVER, advice, find)


def decide(candidates: Mapping[str, Candidate], filters: Sequence[PublishFilter]) -> dict[str, PublishDecision]:
    """Decide about each partition. A publish writes those that no filter holds back and that differ."""
    remaining, held = apply_filters(candidates, filters)
    free = {
        name: Decision(PublishKind.SAME if candidate.is_same else PublishKind.WRITE, candidate)
        for name, candidate in remaining.items()
    }
    return held | free


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsInHive:
    """Differing partitions as Hive has them now, read only after the first group of filters."""

    formats: Mapping[str, FileFormat]
    """The format of each partition that Hive has."""
    changed: Collection[str] = ()
    """Partitions that Hive has changed since the last sync."""


def classify_partitions(
    sides: TableSides,
    baselines: Mapping[str, PartitionBaseline],
    *,
    read_live: Callable[[], Iterable[LiveFile]],
    read_hive: Callable[[Sequence[str]], PartitionsInHive],
    watermark: int,
    lost_since_ns: int,
) -> PublishClassification:
    """Compare the table's live files with Hive's list, and decide about each partition by both groups of filters.

    Changes of a keyed table are merged up to the `watermark`. Where Hive has lost files after `lost_since_ns`, an
    overwrite may still be running. `read_hive` gets the partitions in Hive that the first group lets through.
    """
    columns = sides.table.partition_columns
    comparison = compare_partitions(read_live(), baselines, to_partition_records(columns, baselines))
    filters = build_link_filters(sides.link, baselines, columns, watermark, lost_since_ns)
    first = decide(list_candidates(comparison, columns), filters)
    differing = [
        name for name, decision in first.items() if decision.kind is PublishKind.WRITE and decision.facts.is_in_hive
    ]
    return _classify_in_hive(first, read_hive(differing), sides, read_live())


def find_unpublishable(
    sides: TableSides, comparison: PublishComparison, in_hive: PartitionsInHive, live: Iterable[LiveFile]
) -> str | None:
    """Why Hive can never hold some differing partition, whatever a sync or time brings; None when it can hold all."""
    columns = sides.table.partition_columns
    first = decide(list_candidates(comparison, columns), [build_unnameable_filter(columns)])
    return _classify_in_hive(first, in_hive, sides, live).blocked


def _classify_in_hive(
    first: PublishDecisions, in_hive: PartitionsInHive, sides: TableSides, live: Iterable[LiveFile]
) -> PublishClassification:
    """Apply the second group of filters to the partitions that the first group lets through.

    `live` is read only where a partition is in Avro.
    """
    passed = {name: decision.facts for name, decision in first.items() if not decision.held_by}
    formats = formats_to_write(passed, in_hive.formats, sides.table.file_format)
    nameable = {
        name: decision.facts.record
        for name, decision in first.items()
        if not decision.facts.is_same and decision.held_by != UNNAMEABLE
    }
    gone = {*in_hive.changed} - in_hive.formats.keys()  # a sync decides about these, so their notes stay
    notes = compare_notes(sides, live, nameable, {name: formats[name] for name in formats.keys() - gone})
    second = decide(passed, build_state_filters(formats, sides.metadata, notes.reasons, in_hive.changed))
    held = {name: decision for name, decision in first.items() if decision.held_by}
    return PublishClassification(
        decisions=held | second, formats=formats, digests=notes.digests, stale_notes=notes.stale
    )


def formats_to_write(
    candidates: Mapping[str, Candidate], in_hive: Mapping[str, FileFormat], of_table: FileFormat | None
) -> dict[str, FileFormat]:
    """The format of each partition that differs: `in_hive` has the formats of those that Hive has now.

    A reader uses the partition's own storage descriptor, so a publish changes no descriptor (decision 40): a partition
    keeps its own format, and a new one has the table's.
    """
    new = of_table or FileFormat.PARQUET
    return {name: in_hive.get(name, new) for name, candidate in candidates.items() if not candidate.is_same}


def find_unsupported_column(metadata: Json) -> str | None:
    """Find a column that Avro cannot hold as Hive writes it; None if Avro can hold all columns."""
    specs = (spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    elsewhere = {part["source-id"] for spec in specs for part in spec["fields"]}
    return find_unsupported_fields(
        [field for field in current_schema(metadata)["fields"] if field["id"] not in elsewhere]
    )


def explain_never(held: Sequence[HeldBack]) -> str | None:
    """Explain why some differing partitions can never be published as they are, and what to do; None without any."""
    never = next((group for group in held if group.kind == PublishKind.NEVER), None)
    if never is None:
        return None
    others = f" and {never.partitions - 1} more" if never.partitions > 1 else ""
    partition = f"partition {never.example}" if never.example else "the table"
    return f"{partition}{others} cannot be published, because {never.reason}: {never.advice}"


def _just_written(baselines: Mapping[str, PartitionBaseline], watermark: int, lost_since_ns: int) -> set[str]:
    """Find partitions that Hive has just overwritten, where half of the files may be missing.

    Also those to which Hive has added rows that are not merged: a publish would hide these rows from Hive's readers.
    """
    return {
        name
        for name, baseline in baselines.items()
        if baseline.appended_through > watermark or (baseline.lost_ns is not None and baseline.lost_ns > lost_since_ns)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteComparison:
    """What the notes of unrepresentable values say about differing partitions in Avro, as they are now."""

    digests: Mapping[str, str]
    """A digest of the files and columns that each partition would be written from."""
    reasons: Mapping[str, str]
    """The values that stopped a partition when a job tried to write it from the same files and columns."""
    stale: frozenset[str] = frozenset()
    """Partitions with an outdated note."""


def compare_notes(
    sides: TableSides,
    live: Iterable[LiveFile],
    differing: Mapping[str, Record],
    formats: Mapping[str, FileFormat],
) -> NoteComparison:
    """Compare the link's notes with the partitions as they are now.

    Only a job that reads the rows learns which values Avro cannot hold as Hive reads it. The job's note carries a
    digest of the partition's files, deletes included, and of both sides' columns: an equal digest needs no new try.
    """
    notes = sides.link.unrepresentable
    in_avro = {name: record for name, record in differing.items() if formats.get(name) is FileFormat.AVRO}
    # A partition that another filter holds back may have no known format: its note stays.
    unknown = {name: record for name, record in differing.items() if name in notes and name not in formats}
    digests = _digests(sides, live, in_avro | unknown) if in_avro or unknown else {}
    valid = {name for name, note in notes.items() if digests.get(name) == note.tried}
    return NoteComparison(
        digests={name: digests[name] for name in in_avro},
        reasons={name: notes[name].reason for name in valid & in_avro.keys()},
        stale=frozenset(notes.keys() - valid),
    )


def _digests(sides: TableSides, live: Iterable[LiveFile], partitions: Mapping[str, Record]) -> dict[str, str]:
    files: dict[Record, list[LiveFile]] = defaultdict(list)
    wanted = frozenset(partitions.values())
    for file in live:
        if file.partition in wanted:
            files[file.partition].append(file)
    columns = [(column.name, column.type) for column in sides.table.columns]
    schema_id = sides.metadata["current-schema-id"]
    return {
        name: _digest((columns, schema_id, fingerprint_files(files[record], [record])))
        for name, record in partitions.items()
    }


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]


def _always(names: Collection[str], reason: str) -> Callable[[Mapping[str, Candidate]], Mapping[str, str]]:
    """A `find` that holds back these partitions for one reason."""
    return lambda _: dict.fromkeys(names, reason)
