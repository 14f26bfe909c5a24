"""What a publish does with each partition: Hive has it, a job writes it, it waits, or Hive cannot be given it.

Two groups of filters hold partitions back. The first goes by what the last sync and the comparison with Hive's list
show. The second needs a look at Hive as it is now, so it is asked only about partitions that pass the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from catalog.files.data_file import FileFormat
from catalog.hive.avro_limits import find_unsupported_fields
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.decision import Decision, Filter, HeldBack, filtered, group_held
from catalog.hive.link import HiveLink
from catalog.hive.model import HiveColumn
from catalog.hive.partition_names import can_name, format_record_name
from catalog.hive.publishing import PublishComparison, Record
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema

UNNAMEABLE = "unnameable"
"""The filter of partitions that only this side can have."""
UNREPRESENTABLE_ADVICE = "change these values, or have Hive write there in Parquet or ORC"


class PublishKind(StrEnum):
    """What a publish does with a partition."""

    SAME = "same"
    """Both sides stand on the same files: there is nothing to write."""
    WRITE = "write"
    WAIT = "wait"
    """It waits for a sync, for a merge, or for time."""
    NEVER = "never"
    """Hive cannot be given it before somebody changes something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A partition of the table beside what Hive lists there."""

    record: Record
    is_same: bool = False
    is_in_hive: bool = True
    """Whether Hive has the partition, so that only its files differ."""


PublishDecision = Decision[PublishKind, Candidate]
PublishFilter = Filter[PublishKind, Candidate]
PublishDecisions = Mapping[str, PublishDecision]


def candidates_of(comparison: PublishComparison, columns: Sequence[HiveColumn]) -> dict[str, Candidate]:
    """Returns every partition under Hive's name; differing partitions come first. A partition without a name in Hive
    stands under its values.
    """
    candidates = {name: Candidate(record=record) for name, record in comparison.differing.items()}
    for record in comparison.unknown:
        name = format_record_name(columns, record) if can_name(columns, record) else repr(record)
        candidates[name] = Candidate(record=record, is_in_hive=False)
    same = sorted(comparison.same)
    return candidates | {name: Candidate(record=(), is_same=True) for name in same}


def filters_by_link(
    link: HiveLink,
    baselines: Mapping[str, PartitionBaseline],
    columns: Sequence[HiveColumn],
    watermark: int,
    lost_since_ns: int,
) -> list[PublishFilter]:
    """The first group; changes of a keyed table are merged up to the watermark."""
    wait = PublishKind.WAIT
    return [
        filter_unnameable(columns),
        Filter(
            "held-by-sync",
            wait,
            "mend what the last sync names",
            _always(link.held_partitions, "what Hive has there is not taken over"),
        ),
        Filter(
            "just-written",
            wait,
            "a later publish writes it, once the overwrite is surely over and added rows are merged",
            _always(_just_written(baselines, watermark, lost_since_ns), "Hive has written there a moment ago"),
        ),
    ]


def filters_by_look(
    formats: Mapping[str, FileFormat], metadata: Json, unrepresentable: Mapping[str, str], changed: Collection[str]
) -> list[PublishFilter]:
    """The second group: partitions in formats that cannot hold what is here, and those that Hive has `changed` since.

    Of the `unrepresentable` ones a job has found out, for each by which values.
    """
    changes = "Hive has changed it since the last sync"
    return [
        *filters_by_format(formats, metadata, unrepresentable),
        Filter("changed-in-hive", PublishKind.WAIT, "the next sync takes that over", _always(changed, changes)),
    ]


def filters_by_format(
    formats: Mapping[str, FileFormat], metadata: Json, unrepresentable: Mapping[str, str]
) -> list[PublishFilter]:
    """What Hive's Avro cannot hold: columns of the whole table, or values of some partitions."""
    column = column_beyond_avro(metadata)
    in_avro = [name for name, one in formats.items() if one is FileFormat.AVRO] if column is not None else []
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


def filter_unnameable(columns: Sequence[HiveColumn]) -> PublishFilter:
    """Partitions that only this side can have: Hive takes an empty text for null, and has smaller integers."""

    def find(candidates: Mapping[str, Candidate]) -> dict[str, str]:
        unknown = {name: one for name, one in candidates.items() if not (one.is_same or one.is_in_hive)}
        return {
            name: "Hive can have none of the values"
            for name, one in unknown.items()
            if not can_name(columns, one.record)
        }

    advice = "write their rows to other partitions, or delete them"
    return Filter(UNNAMEABLE, PublishKind.NEVER, advice, find)


def decide(candidates: Mapping[str, Candidate], filters: Sequence[PublishFilter]) -> dict[str, PublishDecision]:
    """A decision about each: those that no filter holds back are written, unless Hive has them as they are."""
    remaining, held = filtered(candidates, filters)
    free = {
        name: Decision(PublishKind.SAME if candidate.is_same else PublishKind.WRITE, candidate)
        for name, candidate in remaining.items()
    }
    return held | free


def formats_to_write(
    candidates: Mapping[str, Candidate], in_hive: Mapping[str, FileFormat], of_table: FileFormat | None
) -> dict[str, FileFormat]:
    """The format of each partition that differs: `in_hive` has the formats of those that Hive has now.

    Whoever reads a partition goes by the descriptor that it has, so a publish changes none (decision 40): a partition
    keeps its own format, and a new one has the table's.
    """
    new = of_table or FileFormat.PARQUET
    return {name: in_hive.get(name, new) for name, candidate in candidates.items() if not candidate.is_same}


def column_beyond_avro(metadata: Json) -> str | None:
    """The column for which Avro has no form as Hive writes it; None when all can be published in it."""
    specs = (spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    elsewhere = {part["source-id"] for spec in specs for part in spec["fields"]}
    return find_unsupported_fields([one for one in current_schema(metadata)["fields"] if one["id"] not in elsewhere])


def same_partitions(decisions: PublishDecisions) -> tuple[str, ...]:
    """Those that Hive has as they are, and that nothing holds back."""
    return tuple(sorted(name for name, decision in decisions.items() if decision.kind is PublishKind.SAME))


def partitions_to_write(decisions: PublishDecisions) -> dict[str, Record]:
    """Those that a job writes, those that Hive has first."""
    return {name: one.facts.record for name, one in decisions.items() if one.kind is PublishKind.WRITE}


def held_back(decisions: PublishDecisions) -> tuple[HeldBack, ...]:
    """What is not published now, and why: by filter, in their order. What is the same needs no publish."""
    return group_held({name: decision for name, decision in decisions.items() if not decision.facts.is_same})


def explain_never(held: Sequence[HeldBack]) -> str | None:
    """Why Hive cannot be given some of what differs, and what to do; None when it can be given all."""
    never = next((one for one in held if one.kind == PublishKind.NEVER), None)
    if never is None:
        return None
    others = f" and {never.partitions - 1} more" if never.partitions > 1 else ""
    partition = f"partition {never.example}" if never.example else "the table"
    return f"{partition}{others} cannot be published, because {never.reason}: {never.advice}"


def _just_written(baselines: Mapping[str, PartitionBaseline], watermark: int, lost_since_ns: int) -> set[str]:
    """Partitions that Hive has overwritten a moment ago, of which half may be missing.

    And those to which it has added rows that are not merged yet: its readers would not see these any more.
    """
    return {
        name
        for name, baseline in baselines.items()
        if baseline.appended_through > watermark or (baseline.lost_ns is not None and baseline.lost_ns > lost_since_ns)
    }


def _always(names: Collection[str], reason: str) -> Callable[[Mapping[str, Candidate]], Mapping[str, str]]:
    """What finds these partitions, for one reason."""
    return lambda _: dict.fromkeys(names, reason)
