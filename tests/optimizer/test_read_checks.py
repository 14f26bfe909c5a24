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

    def open_paths(self) -> Any:
        return self.open("data", self.files)

    def open_deletes(self) -> Any:
        return self.open("deletes", [SimpleNamespace(location=lambda name=name: name) for name in self.files])

    def open(self, read_as: str, values: list[Any]) -> Any:
        self.read_as, self.listing = read_as, JavaIterator(values)
        return SimpleNamespace(iterator=lambda: self.listing, close=self.close)

    def close(self) -> None:
        self.is_closed = True


def take(iterable: Any, most: int) -> list[str]:
    """As Guava's Iterables.limit, at once."""
    iterator = iterable.iterator()
    return [iterator.next() for _ in range(most) if iterator.hasNext()]


def list_few(*manifests: Manifest) -> list[str] | None:
    common = SimpleNamespace(
        base=SimpleNamespace(Joiner=SimpleNamespace(on=lambda mark: SimpleNamespace(join=mark.join))),
        collect=SimpleNamespace(Iterables=SimpleNamespace(limit=take)),
    )
    iceberg = SimpleNamespace(
        ManifestFiles=SimpleNamespace(
            readPaths=lambda manifest, *_: manifest.open_paths(),
            readDeleteManifest=lambda manifest, *_: manifest.open_deletes(),
        ),
        relocated=SimpleNamespace(com=SimpleNamespace(google=SimpleNamespace(common=common))),
    )
    java = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=iceberg)))
    work: Any = SimpleNamespace(session=SimpleNamespace(jvm=java))
    table = SimpleNamespace(io=lambda: None, specs=lambda: None)
    return read_checks._list_few(work, table, manifests)


def test_few_files_are_listed_data_and_deletes() -> None:
    data, deletes = Manifest(["a", "b"], (2, 0)), Manifest(["c"], (1, None), kind=DELETES)
    assert list_few(data, deletes) == ["a", "b", "c"]
    assert (data.read_as, deletes.read_as) == ("data", "deletes")
    assert data.is_closed
    assert deletes.is_closed


def test_an_empty_snapshot_has_no_files() -> None:
    assert list_few() == []


def test_empty_manifests_list_nothing() -> None:
    assert list_few(Manifest([]), Manifest([], kind=DELETES), Manifest(["a"])) == ["a"]


def test_a_newline_in_a_location_does_not_hide_what_comes_after_it() -> None:
    assert list_few(Manifest(["file:/own/a\n/elsewhere/b"])) == ["file:/own/a", "/elsewhere/b"]


def test_many_files_or_manifests_are_left_to_spark_unopened() -> None:
    many = Manifest([], (0, read_checks.MOST_LISTED + 1))
    deletes = Manifest([], (read_checks.MOST_DELETES + 1, 0), kind=DELETES)
    crowd = [Manifest([]) for _ in range(read_checks.MOST_MANIFESTS + 1)]
    assert list_few(many) is None
    assert list_few(deletes) is None
    assert list_few(*crowd) is None
    assert {manifest.read_as for manifest in (many, deletes, *crowd)} == {None}


@pytest.mark.parametrize("counts", [(0, 0), (None, None), (-(10**6), 5)])
@pytest.mark.parametrize("kind", [DATA, DELETES])
def test_a_manifest_list_that_counts_too_few_files_does_not_make_the_driver_list_all(
    counts: tuple[int | None, int | None], kind: int
) -> None:
    most = read_checks.MOST_LISTED if kind == DATA else read_checks.MOST_DELETES
    first, second = Manifest(["a"] * 150, counts, kind), Manifest(["b"] * 10**5, counts, kind)
    assert list_few(first, second) is None
    assert second.listing.taken == most + 1 - 150
    assert second.is_closed
