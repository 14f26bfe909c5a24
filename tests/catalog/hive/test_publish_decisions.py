"""Each partition of a publish gets one decision, and one that is held back says by which filter and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from catalog.files.data_file import FileFormat
from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.hive.decision import HeldBack
from catalog.hive.link import HiveLink
from catalog.hive.publish_decisions import (
    Candidate,
    PublishClassification,
    PublishDecisions,
    PublishKind,
    build_link_filters,
    build_state_filters,
    decide,
    explain_never,
    formats_to_write,
    list_candidates,
)
from catalog.hive.publishing import PublishComparison
from catalog.iceberg.json import Json
from tests.hive_tables import columns

NOW = datetime(2026, 11, 24, tzinfo=UTC)
P = columns("p string")
A, B = Candidate(record=("a",)), Candidate(record=("b",))


def a_link(*held: str) -> HiveLink:
    return HiveLink(columns=(), partition_columns=P, synced_at=NOW, swept_at=NOW, held_partitions=held)


def a_baseline(*, lost_ns: int | None = None, appended: int = 0) -> PartitionBaseline:
    return PartitionBaseline(
        signals=ChangeSignals(location="file:/t"), files=(), lost_ns=lost_ns, appended_through=appended
    )


def classified(decisions: PublishDecisions) -> PublishClassification:
    return PublishClassification(decisions=decisions, formats={}, digests={}, stale_notes=frozenset())


def held_back(decisions: PublishDecisions) -> tuple[HeldBack, ...]:
    return classified(decisions).held_back


def metadata(kind: str = "long") -> Json:
    fields = [{"id": 1, "name": "v", "type": kind, "required": False}]
    schema = {"schema-id": 0, "type": "struct", "fields": fields}
    specs = [{"spec-id": 0, "fields": []}]
    return {"current-schema-id": 0, "schemas": [schema], "default-spec-id": 0, "partition-specs": specs}


def test_every_partition_is_a_candidate_once() -> None:
    comparison = PublishComparison(same=frozenset({"p=s"}), differing={"p=a": ("a",)}, unknown=(("new",), ("",)))
    candidates = list_candidates(comparison, P)
    assert [*candidates] == ["p=a", "p=new", "('',)", "p=s"]
    assert [candidate.is_in_hive for candidate in candidates.values()] == [True, False, False, True]
    decisions = decide(candidates, build_link_filters(a_link(), {}, P, 0, 0))
    assert classified(decisions).to_write == {"p=a": ("a",), "p=new": ("new",)}
    assert classified(decisions).same == ("p=s",)


@pytest.mark.parametrize(
    ("link", "baseline", "filter_"),
    [
        (a_link("p=a"), a_baseline(), "held-by-sync"),
        (a_link(), a_baseline(lost_ns=11), "just-written"),
        (a_link(), a_baseline(appended=6), "just-written"),
    ],
)
def test_what_a_sync_has_not_settled_waits_whether_it_differs_or_not(
    link: HiveLink, baseline: PartitionBaseline, filter_: str
) -> None:
    for candidate, waiting in ((A, 1), (Candidate(record=(), is_same=True), 0)):
        candidates = {"p=a": candidate, "p=b": B}
        decisions = decide(candidates, build_link_filters(link, {"p=a": baseline}, P, watermark=5, lost_since_ns=10))
        assert (decisions["p=a"].kind, decisions["p=a"].held_by) == (PublishKind.WAIT, filter_)
        assert decisions["p=b"].kind is PublishKind.WRITE
        assert sum(held.partitions for held in held_back(decisions)) == waiting, "what is the same needs no publish"


def test_an_overwrite_and_changes_that_are_over_hold_nothing_back() -> None:
    filters = build_link_filters(
        a_link(), {"p=a": a_baseline(lost_ns=10, appended=5)}, P, watermark=5, lost_since_ns=10
    )
    assert decide({"p=a": A}, filters)["p=a"].kind is PublishKind.WRITE


def test_a_format_that_cannot_hold_a_column_stops_what_is_stored_in_it_for_good() -> None:
    formats = {"p=a": FileFormat.AVRO, "p=b": FileFormat.PARQUET}
    decisions = decide({"p=a": A, "p=b": B}, build_state_filters(formats, metadata("uuid"), {}, ()))
    assert decisions["p=b"].kind is PublishKind.WRITE
    [held] = held_back(decisions)
    assert (held.filter, held.kind, held.example) == ("avro-columns", PublishKind.NEVER, "p=a")
    assert "column v (a uuid)" in held.message
    assert "have Hive write it in Parquet or ORC" in held.message
    assert (explain_never([held]) or "").startswith("partition p=a cannot be published, because Hive has Avro there")
    assert decide({"p=a": A}, build_state_filters(formats, metadata("long"), {}, ()))["p=a"].kind is PublishKind.WRITE


def test_of_several_reasons_the_one_that_lasts_is_told() -> None:
    """Hive's changes are taken over by the next sync, and then the values still cannot be written."""
    formats = {"p=a": FileFormat.AVRO, "p=b": FileFormat.PARQUET}
    filters = build_state_filters(formats, metadata(), {"p=a": "microseconds"}, ["p=a", "p=b"])
    held = held_back(decide({"p=a": A, "p=b": B}, filters))
    assert [(obstacle.filter, obstacle.kind) for obstacle in held] == [
        ("avro-values", PublishKind.NEVER),
        ("changed-in-hive", PublishKind.WAIT),
    ]
    assert explain_never(held[1:]) is None


def test_partitions_of_one_reason_are_counted_together() -> None:
    candidates = {f"p={number}": Candidate(record=(str(number),)) for number in range(1200)}
    [held] = held_back(decide(candidates, build_link_filters(a_link(*candidates), {}, P, 0, 0)))
    assert (held.partitions, held.example) == (1200, "p=0")
    assert held.message.startswith("1,200 partitions wait, because its changes in Hive are not synced: fix")


def test_a_partition_keeps_its_format_and_a_new_one_has_the_table_s() -> None:
    candidates = {"p=a": A, "p=b": B, "p=s": Candidate(record=(), is_same=True)}
    in_hive = {"p=a": FileFormat.ORC, "p=s": FileFormat.ORC}
    assert formats_to_write(candidates, in_hive, FileFormat.AVRO) == {"p=a": FileFormat.ORC, "p=b": FileFormat.AVRO}
    assert formats_to_write({"p=b": B}, {}, None) == {"p=b": FileFormat.PARQUET}
