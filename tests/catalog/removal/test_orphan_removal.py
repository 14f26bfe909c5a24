"""What is taken for an orphan: never what may be needed, young, or of unknown age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from catalog.commits.commit_rules import OLDEST_LEASE
from catalog.errors import Invalid
from catalog.policy.settings import SETTINGS
from catalog.removal.orphan_removal import (
    KeepReason,
    SeenFile,
    compute_cutoff,
    find_keep_reason,
    is_metadata,
    list_names,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
MIN_AGE = SETTINGS["firn.orphans.min-age"]


def test_no_age_that_can_be_configured_is_below_twice_the_oldest_lease_that_may_commit() -> None:
    """A job whose lease is younger than that has written all its files after they could be taken
    (docs/protocols.md, rule 2.9).
    """
    for text in ("71 h", "2 d", "0 s", "4319 min"):
        with pytest.raises(Invalid):
            MIN_AGE.parse(text)
    assert min(MIN_AGE.parse(text) for text in ("3 d", "72 h", MIN_AGE.default)) >= 2 * OLDEST_LEASE


def test_the_clock_that_makes_files_youngest_counts() -> None:
    age, began = timedelta(days=3), NOW
    assert compute_cutoff(NOW, NOW, began, age) == NOW - age
    assert compute_cutoff(NOW, NOW - timedelta(days=9), began, age) == NOW - timedelta(days=12)
    assert compute_cutoff(NOW, NOW + timedelta(days=9), began, age) == NOW - age
    assert compute_cutoff(NOW, NOW, NOW - timedelta(days=5), age) == NOW - timedelta(days=5)
    assert compute_cutoff(NOW, NOW, began, timedelta()) == NOW - timedelta(hours=72)


@pytest.mark.parametrize(
    ("location", "modified", "reason"),
    [
        ("s3a://b/t/data/x.parquet", NOW - timedelta(days=4), None),
        ("s3://b/t//data/../data/x.parquet", NOW - timedelta(days=4), None),
        ("s3://b/t/data/x.parquet", None, KeepReason.AGE_UNKNOWN),
        ("s3://b/t/data/x.parquet", datetime(1970, 1, 1, tzinfo=UTC), KeepReason.AGE_UNKNOWN),
        ("s3://b/t/data/x.parquet", NOW - timedelta(days=3), KeepReason.YOUNG),
        ("s3://b/t/data/x.parquet", NOW + timedelta(days=3), KeepReason.YOUNG),
        ("s3://b/t2/data/x.parquet", NOW - timedelta(days=4), KeepReason.ELSEWHERE),
        ("s3://b/t/../t2/x.parquet", NOW - timedelta(days=4), KeepReason.ELSEWHERE),
        ("s3://other/t/data/x.parquet", NOW - timedelta(days=4), KeepReason.ELSEWHERE),
        ("s3://b/t", NOW - timedelta(days=4), KeepReason.ELSEWHERE),
        ("s3://b/t/metadata/version-hint.text", NOW - timedelta(days=4), KeepReason.NEEDED),
    ],
)
def test_a_file_is_kept_unless_place_and_age_are_sure(
    location: str, modified: datetime | None, reason: KeepReason | None
) -> None:
    before = NOW - timedelta(days=3)
    assert find_keep_reason(SeenFile(location, 1, modified), ["s3://b/t"], before) is reason
    assert find_keep_reason(None, ["s3://b/t"], before) is KeepReason.GONE


@pytest.mark.parametrize(
    ("spelling", "other"),
    [
        ("s3://b/t/x%20y.parquet", "s3a://b/t/x y.parquet"),
        ("s3://b/t/x%2520y.parquet", "file:/elsewhere/x%20y.parquet"),
        ("hdfs://nn/t/X.parquet", "/t/x.PARQUET"),
        ("/t/50%.parquet", "/t/50%25.parquet"),
    ],
)
def test_a_file_is_known_by_its_name_however_it_is_spelled(spelling: str, other: str) -> None:
    assert list_names(spelling) & list_names(other)


def test_metadata_is_told_by_its_name() -> None:
    assert all(map(is_metadata, ["a/v1.metadata.json", "a/00001-x.gz.metadata.json", "/a/v3.METADATA.JSON.gz"]))
    assert not any(map(is_metadata, ["a/snap-1.avro", "a/metadata/x.json", "a/metadata.json.parquet"]))
