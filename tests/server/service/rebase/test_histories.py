"""Random histories of writers who read now and then and append to what they have read, against a model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import RequirementFailed
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.reading import ref_snapshot_id
from tests.databases import open_database
from tests.server.appending import Sent, an_append, entries_in, ids_in
from tests.server.lake import PLAIN, Lake, a_lake, altered
from tests.server.service.rebase.overtaking import ON, with_column

WRITERS = 3
STEPS = [
    "read",
    "append",
    "append",
    "append",
    "lost",
    "delete",
    "column",
    "tag",
    "branch",
    "expire",
    "rollback",
    "repeat",
]
History = Sequence[tuple[str, int]]


class Story:
    """A table, what each writer has last read of it, and what must be in it."""

    def __init__(self, lake: Lake, version: int) -> None:
        self.lake = lake
        lake.create(PLAIN, **ON, **{"format-version": str(version)})
        self.seen = [lake.metadata(PLAIN)] * WRITERS
        self.files: dict[int, dict[str, list[int]]] = {}
        """What each snapshot holds: rows by file."""
        self.sent: list[Sent] = []
        self.rebased = 0
        self._ids = count()

    @property
    def now(self) -> Json:
        return self.lake.metadata(PLAIN)

    @property
    def head(self) -> dict[str, list[int]]:
        head_id = ref_snapshot_id(self.now, "main")
        return {} if head_id is None else self.files[head_id]

    def read(self, writer: int) -> None:
        self.seen[writer] = self.now

    def append(self, writer: int, *, lost: bool = False) -> None:
        """Accepted if what the writer has read is under the head still; else refused and without any effect."""
        row, held, before = next(self._ids), self.head, self.now
        appended = an_append(self.lake, [row], metadata=self.seen[writer])
        parent, head_id = appended.snapshot.get("parent-snapshot-id"), ref_snapshot_id(before, "main")
        stands = Lineage.of(before).descends(head_id, ancestor=parent)
        if not stands:
            with pytest.raises(RequirementFailed):
                self.lake.commit(appended.change)
            return
        if lost:
            self.lake.database.end_unknown_after_commit()
        self.lake.commit(appended.change)
        if lost:
            self.lake.commit(appended.change)
        self.rebased += parent != head_id
        self.files[appended.snapshot["snapshot-id"]] = {**held, appended.file: [row]}
        self.sent.append(appended)

    def lost(self, writer: int) -> None:
        self.append(writer, lost=True)

    def delete(self, writer: int) -> None:
        """A commit that depends on what it has read: never rebased."""
        made_on, before, held = self.seen[writer], self.now, self.head
        parent = ref_snapshot_id(made_on, "main")
        if parent is None or not self.files[parent]:
            return
        gone = min(self.files[parent])
        row = next(self._ids)
        deletion = an_append(self.lake, [row], metadata=made_on, removed=[gone])
        current = parent == ref_snapshot_id(before, "main") and _numbers(made_on) == _numbers(before)
        if not current:
            with pytest.raises(RequirementFailed):
                self.lake.commit(deletion.change)
            return
        self.lake.commit(deletion.change)
        kept = {file: rows for file, rows in held.items() if file != gone}
        self.files[deletion.snapshot["snapshot-id"]] = {**kept, deletion.file: [row]}

    def column(self, _writer: int) -> None:
        self.lake.commit(altered(PLAIN, *with_column(self.now, required=False, name=f"c{next(self._ids)}")))

    def tag(self, writer: int) -> None:
        self._ref(f"t{writer}", "tag")

    def branch(self, writer: int) -> None:
        self._ref(f"b{writer}", "branch")

    def _ref(self, name: str, kind: str) -> None:
        head_id = ref_snapshot_id(self.now, "main")
        if head_id is not None:
            ref = {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": head_id}
            self.lake.commit(altered(PLAIN, ref))

    def expire(self, _writer: int) -> None:
        now = self.now
        held = {ref["snapshot-id"] for ref in now.get("refs", {}).values()}
        old = [snapshot["snapshot-id"] for snapshot in now["snapshots"] if snapshot["snapshot-id"] not in held][:2]
        if old:
            self.lake.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": old}))

    def rollback(self, _writer: int) -> None:
        now = self.now
        line = Lineage.of(now).ancestors(ref_snapshot_id(now, "main"))
        if len(line) > 1:
            back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": line[1]}
            self.lake.commit(altered(PLAIN, back))

    def repeat(self, writer: int) -> None:
        """The answer to an old commit was lost: it is answered, whatever has become of its snapshot."""
        if self.sent:
            self.lake.commit(self.sent[writer % len(self.sent)].change)

    def check(self) -> None:
        now, held = self.now, self.head
        assert ids_in(self.lake) == sorted(row for rows in held.values() for row in rows)
        entries = entries_in(self.lake)
        assert sorted(entry["data_file"]["file_path"] for entry in entries) == sorted(held)
        numbers = [snapshot["sequence-number"] for snapshot in now["snapshots"]]
        assert all(first < second for first, second in pairwise(numbers))
        by_id = {snapshot["snapshot-id"]: snapshot for snapshot in now["snapshots"]}
        for entry in entries:
            added_by = by_id.get(entry["snapshot_id"])
            assert added_by is None or entry["sequence_number"] == added_by["sequence-number"]
        if now["format-version"] > 2:
            row_ids = [entry["data_file"]["first_row_id"] + at for entry in entries for at in range(_rows(entry))]
            assert len(set(row_ids)) == len(row_ids)
            assert all(row_id < now["next-row-id"] for row_id in row_ids)
        head_id = ref_snapshot_id(now, "main")
        if head_id is not None:
            summary = by_id[head_id]["summary"]
            assert int(summary["total-records"]) == sum(map(len, held.values()))
            assert int(summary["total-data-files"]) == len(held)


def _numbers(metadata: Json) -> tuple[int, int]:
    return metadata["last-sequence-number"], metadata.get("next-row-id", 0)


def _rows(entry: Json) -> int:
    rows: int = entry["data_file"]["record_count"]
    return rows


def replay(empty: Path, version: int, history: History) -> Story:
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(empty, f"{directory}/firn.db")
        with open_database(f"sqlite:///{directory}/firn.db") as opened:
            story = Story(a_lake(opened.database, Path(directory)), version)
            for step, writer in history:
                getattr(story, step)(writer)
                story.check()
            return story


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=25, deadline=None)
@given(history=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, WRITERS - 1)), max_size=18))
def test_whatever_happens_every_acknowledged_append_is_there_once(
    migrated_sqlite: Path, version: int, history: History
) -> None:
    replay(migrated_sqlite, version, history)


def test_such_histories_do_rebase(migrated_sqlite: Path) -> None:
    history = [("append", 0), ("append", 1), ("column", 0), ("append", 2), ("lost", 2), ("read", 1), ("tag", 0)]
    assert replay(migrated_sqlite, 3, [*history, ("append", 0), ("repeat", 2)]).rebased == 4
