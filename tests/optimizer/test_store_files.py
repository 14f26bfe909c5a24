"""Commits that a run sends without Java: each outcome is told apart, and nothing is written twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException, CommitStateUnknownException

from firn.spark.errors import AppendRefused, AppendUnknown, is_refusal, is_uncertain
from optimizer.errors import Refused
from optimizer.pipelines import store_files
from optimizer.pipelines.store_files import TRIES, StoreFiles, TooManyBytes, WrittenChanges

ROWS = pa.table({"k": pa.array([1], pa.int64()), "_op": ["U"]})


@dataclass
class Catalog:
    """What becomes of each commit, in order, and what was sent."""

    answers: list[Exception | None]
    sent: list[tuple[Any, ...]] = field(default_factory=list)
    loads: int = 0

    def load(self, store: str) -> Any:
        assert store == "change"
        self.loads += 1
        return build_table(f"table {self.loads}")

    def append(self, table: Any, files: Any, spec: int, summary: Any) -> Any:
        self.sent.append((table.name, tuple(files), spec, summary["position"]))
        return SimpleNamespace(commit=self.commit)

    def commit(self) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def append(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None) -> tuple[Catalog, WrittenChanges]:
    catalog: Any = Catalog([*answers])
    monkeypatch.setattr(store_files, "Append", catalog.append)
    file: Any = "file"
    return catalog, WrittenChanges(catalog, build_table("table 0"), [file])


def build_table(name: str) -> Any:
    return SimpleNamespace(spec=lambda: SimpleNamespace(spec_id=7), name=name)


def test_changes_are_appended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, changes = append(monkeypatch, None)
    changes.append({"position": "c"})
    assert catalog.sent == [("table 0", ("file",), 7, "c")]


def test_a_commit_that_comes_after_another_one_is_sent_again_upon_it(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, changes = append(monkeypatch, CommitFailedException("first"), CommitFailedException("again"), None)
    changes.append({"position": "c"})
    assert [sent[0] for sent in catalog.sent] == ["table 0", "table 1", "table 2"]
    assert {sent[1:] for sent in catalog.sent} == {(("file",), 7, "c")}


def test_a_commit_that_is_refused_each_time_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, changes = append(monkeypatch, *[CommitFailedException("the position has moved")] * TRIES)
    with pytest.raises(AppendRefused, match="the position has moved") as refused:
        changes.append({"position": "c"})
    assert len(catalog.sent) == TRIES
    assert is_refusal(refused.value)
    assert not is_uncertain(refused.value)


def test_a_bad_commit_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, changes = append(monkeypatch, BadRequestError("no such column"))
    with pytest.raises(AppendRefused, match="no such column"):
        changes.append({"position": "c"})
    assert len(catalog.sent) == 1


@pytest.mark.parametrize("error", [CommitStateUnknownException("502"), ConnectionResetError(), TimeoutError("late")])
def test_a_commit_without_an_answer_is_never_sent_again_by_itself(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, changes = append(monkeypatch, error)
    with pytest.raises(AppendUnknown) as unknown:
        changes.append({"position": "c"})
    assert len(catalog.sent) == 1
    assert is_uncertain(unknown.value)
    assert not is_refusal(unknown.value)


def open_failing(error: Exception) -> StoreFiles:
    def load(_: str) -> Any:
        raise error

    loader: Any = SimpleNamespace(load=load)
    return StoreFiles(lambda _: loader)


HANDLE: Any = None
PLAN: Any = None


@pytest.mark.parametrize("error", [ValueError("equality deletes"), TooManyBytes("9 bytes of files"), OSError("denied")])
def test_what_python_cannot_read_or_write_is_left_to_spark(error: Exception) -> None:
    files = open_failing(error)
    assert files.read_rows(HANDLE, PLAN, ROWS) == str(error)
    assert files.write_changes(HANDLE, ROWS) == str(error)


def test_a_file_that_the_run_may_not_open_ends_the_run() -> None:
    with pytest.raises(Refused, match="elsewhere"):
        open_failing(Refused("elsewhere")).read_rows(HANDLE, PLAN, ROWS)
