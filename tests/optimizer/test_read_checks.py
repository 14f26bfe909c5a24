"""The files of a small snapshot are listed without Spark, and a writer's word does not decide what is small."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer import read_checks

DATA, DELETES = 0, 1


@dataclass
class JavaIterator:
    """An iterator of Java, which counts what was taken."""

    values: list[Any]
    taken: int = 0

    def hasNext(self) -> bool:  # noqa: N802 -- Java's name
        return self.taken < len(self.values)

    def next(self) -> Any:
        self.taken += 1
        return self.values[self.taken - 1]


@dataclass
class Manifest:
    """A manifest, and what its manifest list says about it."""

    files: list[str]
    counts: tuple[int | None, int | None] = (None, None)
    kind: int = DATA
    read_as: str | None = None
    is_closed: bool = False
    listing: JavaIterator = field(init=False)

    def content(self) -> Any:
        return SimpleNamespace(id=lambda: self.kind)

    def addedFilesCount(self) -> int | None:  # noqa: N802 -- Java's name
        return self.counts[0]

    def existingFilesCount(self) -> int | None:  # noqa: N802 -- Java's name
        return self.counts[1]

    def open(self, read_as: str) -> Any:
        self.read_as = read_as
        self.listing = JavaIterator([SimpleNamespace(location=lambda name=name: name) for name in self.files])
        return SimpleNamespace(iterator=lambda: self.listing, close=self.close)

    def close(self) -> None:
        self.is_closed = True


def list_few(*manifests: Manifest) -> list[str] | None:
    files = SimpleNamespace(
        read=lambda manifest, *_: manifest.open("data"),
        readDeleteManifest=lambda manifest, *_: manifest.open("deletes"),
    )
    java = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=SimpleNamespace(ManifestFiles=files))))
    work: Any = SimpleNamespace(session=SimpleNamespace(jvm=java))
    table = SimpleNamespace(io=lambda: None, specs=lambda: None)
    listed = SimpleNamespace(iterator=lambda: JavaIterator([*manifests]))
    return read_checks._list_few(work, table, SimpleNamespace(allManifests=lambda _: listed))


def test_few_files_are_listed_data_and_deletes() -> None:
    data, deletes = Manifest(["a", "b"], (2, 0)), Manifest(["c"], (1, None), kind=DELETES)
    assert list_few(data, deletes) == ["a", "b", "c"]
    assert (data.read_as, deletes.read_as) == ("data", "deletes")
    assert data.is_closed
    assert deletes.is_closed


def test_an_empty_snapshot_has_no_files() -> None:
    assert list_few() == []


def test_many_files_or_manifests_are_left_to_spark_unopened() -> None:
    many = Manifest([], (0, read_checks.MOST_LISTED + 1))
    crowd = [Manifest([]) for _ in range(read_checks.MOST_MANIFESTS + 1)]
    assert list_few(many) is None
    assert list_few(*crowd) is None
    assert {manifest.read_as for manifest in (many, *crowd)} == {None}


@pytest.mark.parametrize("counts", [(0, 0), (None, None), (-(10**6), 5)])
def test_a_manifest_list_that_counts_too_few_files_does_not_make_the_driver_list_all(
    counts: tuple[int | None, int | None],
) -> None:
    first, second = Manifest(["a"] * 150, counts), Manifest(["b"] * 10**5, counts)
    assert list_few(first, second) is None
    assert second.listing.taken == read_checks.MOST_LISTED + 1 - 150
    assert second.is_closed
