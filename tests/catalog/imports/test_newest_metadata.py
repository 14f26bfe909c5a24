"""The newest metadata file is picked where it can be told, and no file is picked where it cannot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.imports.newest_metadata import (
    Ambiguous,
    Header,
    NewestMetadata,
    find_newest,
    parse_metadata_name,
    read_header,
    read_version_number,
)

OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@dataclass
class Directory:
    """A table's directory as catalogs leave it: commits, failed ones, unreadable files; `keeps` is the log's length."""

    keeps: int = 100
    files: dict[str, Header | None] = field(default_factory=dict)
    mtimes: dict[str, int] = field(default_factory=dict)
    clock: int = 1_000
    reads: list[str] = field(default_factory=list)

    def write(self, name: str, header: Header | None) -> str:
        self.clock += 1
        self.files[name], self.mtimes[name] = header, self.clock
        return name

    def header(self, uuid: str, *past: str) -> Header:
        past_kept = frozenset(past[-self.keeps :])
        content = {"written": self.clock}
        return Header(
            uuid=uuid, location="/t", updated_ms=self.clock // 3, past=past_kept, is_view=False, content=content
        )

    def pick(self, hint: int | None = None) -> NewestMetadata | Ambiguous | None:
        parsed = [parse_metadata_name(name, self.mtimes[name]) for name in self.files]
        return find_newest([metadata for metadata in parsed if metadata is not None], hint, self.read)

    def read(self, name: str) -> Header | None:
        self.reads.append(name)
        return self.files[name]


@dataclass
class Table:
    """One table that lives there, and the chain of its commits."""

    place: Directory
    uuid: str
    hadoop: bool = False
    past: list[str] = field(default_factory=list)

    @property
    def number(self) -> int:
        return len(self.past)

    def commit(self) -> str:
        name = self.attempt()
        self.past.append(name)
        return name

    def attempt(self) -> str:
        """A file for the next version, committed or not."""
        unique = self.place.clock
        name = f"v{self.number + 1}.metadata.json" if self.hadoop else f"{self.number:05d}-{unique}.metadata.json"
        return self.place.write(name, self.place.header(self.uuid, *self.past))


def picked(outcome: NewestMetadata | Ambiguous | None) -> str:
    assert isinstance(outcome, NewestMetadata), outcome
    return outcome.name


@given(steps=st.lists(st.sampled_from(["commit", "fail", "tear"]), max_size=30), keeps=st.sampled_from([1, 3, 100]))
def test_the_last_version_is_picked_whatever_failed_before_it_unless_it_is_in_doubt(
    steps: list[str], keeps: int
) -> None:
    place = Directory(keeps=keeps)
    table = Table(place, NEW)
    table.commit()
    for step in steps:
        if step == "tear":
            place.write(f"{table.number:05d}-torn{place.clock}.metadata.json", None)
        elif step == "fail":
            table.attempt()
        else:
            table.commit()
    outcome = place.pick()
    readable = sorted(name for name, header in place.files.items() if header is not None)
    highest = [name for name in readable if name[:5] == readable[-1][:5]]
    # Written last and perhaps committed: one such file is the newest, of several nobody knows.
    assert isinstance(outcome, Ambiguous) if len(highest) > 1 else picked(outcome) == highest[0]


@given(before=st.integers(1, 12), after=st.integers(1, 12), keeps=st.sampled_from([1, 4, 100]))
def test_a_dropped_table_of_the_same_place_is_never_brought_back(before: int, after: int, keeps: int) -> None:
    place = Directory(keeps=keeps)
    old, new = Table(place, OLD), Table(place, NEW)
    for _ in range(before):
        old.commit()
    for _ in range(after):
        new.commit()
    outcome = place.pick()
    assert isinstance(outcome, Ambiguous) if before >= after else picked(outcome) == new.past[-1]


@given(hadoop=st.integers(1, 12), moved=st.integers(1, 12))
def test_a_table_that_moved_from_hadoop_and_counts_anew_is_followed(hadoop: int, moved: int) -> None:
    place = Directory()
    table = Table(place, NEW, hadoop=True)
    for _ in range(hadoop):
        table.commit()
    after: list[str] = []
    for number in range(moved):
        name = place.write(f"{number:05d}-x.metadata.json", place.header(NEW, *table.past, *after))
        after.append(name)
    assert picked(place.pick(hint=hadoop)) == after[-1]


@given(first=st.integers(2, 30), second=st.integers(1, 5), keeps=st.sampled_from([3, 100]))
def test_a_table_that_another_catalog_counts_from_0_is_followed(first: int, second: int, keeps: int) -> None:
    place = Directory(keeps=keeps)
    table = Table(place, NEW)
    for _ in range(first):
        table.commit()
    past = list(table.past)
    for number in range(1, second + 1):
        past.append(place.write(f"{number:05d}-again.metadata.json", place.header(NEW, *past)))
    outcome = place.pick()
    if keeps == 100 or isinstance(outcome, NewestMetadata):  # what logs have forgotten may leave it to a person
        assert picked(outcome) == past[-1]


def test_an_orderly_directory_is_read_once() -> None:
    place = Directory()
    table = Table(place, NEW)
    for _ in range(50):
        table.commit()
    assert picked(place.pick()) == table.past[-1]
    assert place.reads == [table.past[-1]]


def test_a_file_that_cannot_be_read_is_passed_over_and_told() -> None:
    place = Directory()
    table = Table(place, NEW)
    table.commit()
    place.write("00001-torn.metadata.json", None)
    outcome = place.pick()
    assert isinstance(outcome, NewestMetadata)
    assert (outcome.name, outcome.unreadable) == (table.past[-1], ("00001-torn.metadata.json",))


def test_nothing_that_can_be_read_is_no_table() -> None:
    place = Directory()
    place.write("00000-torn.metadata.json", None)
    assert place.pick() is None


def test_a_hint_that_names_a_missing_version_leaves_it_to_a_person() -> None:
    place = Directory()
    table = Table(place, NEW, hadoop=True)
    table.commit()
    assert isinstance(place.pick(hint=2), Ambiguous)
    assert picked(place.pick(hint=1)) == "v1.metadata.json"


def test_a_hint_may_lag_behind() -> None:
    place = Directory()
    table = Table(place, NEW, hadoop=True)
    table.commit()
    table.commit()
    assert picked(place.pick(hint=1)) == "v2.metadata.json"


def test_one_version_written_plain_and_compressed_is_one() -> None:
    place = Directory()
    header = place.header(NEW)
    place.write("v1.metadata.json", header)
    place.write("v1.gz.metadata.json", replace(header))
    assert picked(place.pick()) in place.files


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("v3.metadata.json", 3),
        ("v3.gz.metadata.json", 3),
        ("00012-5f0c-x.metadata.json", 12),
        ("00012-5f0c.gz.metadata.json", 12),
        ("00012-5f0c.metadata.json.gz", 12),
        ("s3://b/t/metadata/00007-a.metadata.json", 7),
        ("metadata.json", 0),
    ],
)
def test_versions_are_read_out_of_names(name: str, number: int) -> None:
    assert read_version_number(name) == number


@pytest.mark.parametrize("name", ["version-hint.text", "snap-1.avro", "v.metadata.json", "00001-a.metadata.json.tmp"])
def test_other_files_are_no_metadata(name: str) -> None:
    assert parse_metadata_name(name) is None


@pytest.mark.parametrize("metadata", [{}, {"table-uuid": 1}, {"view-uuid": "x", "version-log": 5}, {"table-uuid": "x"}])
def test_what_is_neither_table_nor_view_is_refused(metadata: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        read_header(metadata)
