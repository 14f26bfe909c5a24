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
from optimizer.pipelines.store_files import TRIES, ChangeFiles, StoreFiles, TooManyBytes

ROWS = pa.table({"k": pa.array([1], pa.int64()), "_op": ["U"]})
TARGET = pa.schema({"k": pa.int32(), "_op": pa.large_string()})


@dataclass
class Catalog:
    """What becomes of each commit, in order, and what was written and sent."""

    answers: list[Exception | None]
    written: list[pa.Schema] = field(default_factory=list)
    sent: list[tuple[Any, ...]] = field(default_factory=list)
    loads: int = 0

    def load(self, store: str) -> Any:
        assert store == "change"
        self.loads += 1
        return f"table {self.loads}"

    def write(self, _table: Any, rows: pa.Table) -> list[Any]:
        self.written.append(rows.schema)
        return ["file"]

    def append(self, table: Any, files: Any, spec: int, summary: Any) -> Any:
        self.sent.append((table, tuple(files), spec, summary["position"]))
        return SimpleNamespace(commit=self.commit)

    def commit(self) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def append(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None) -> tuple[Catalog, ChangeFiles]:
    catalog = Catalog([*answers])
    monkeypatch.setattr(store_files, "write_files", catalog.write)
    monkeypatch.setattr(store_files, "Append", catalog.append)
    table = SimpleNamespace(spec=lambda: SimpleNamespace(spec_id=7))
    layout: Any = SimpleNamespace(table=table, target=TARGET)
    loader: Any = catalog
    return catalog, ChangeFiles(loader, layout)


def test_changes_are_appended_with_the_types_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, files = append(monkeypatch, None)
    files.append(ROWS, {"position": "c"})
    assert catalog.written == [TARGET]
    assert [sent[1:] for sent in catalog.sent] == [(("file",), 7, "c")]


def test_a_commit_that_comes_after_another_one_is_sent_again_upon_it(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, files = append(monkeypatch, CommitFailedException("first"), CommitFailedException("again"), None)
    files.append(ROWS, {"position": "c"})
    assert len(catalog.written) == 1
    assert [sent[0] for sent in catalog.sent[1:]] == ["table 1", "table 2"]


def test_a_commit_that_is_refused_each_time_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, files = append(monkeypatch, *[CommitFailedException("the position has moved")] * TRIES)
    with pytest.raises(AppendRefused, match="the position has moved") as refused:
        files.append(ROWS, {"position": "c"})
    assert len(catalog.sent) == TRIES
    assert is_refusal(refused.value)
    assert not is_uncertain(refused.value)


def test_a_bad_commit_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, files = append(monkeypatch, BadRequestError("no such column"))
    with pytest.raises(AppendRefused, match="no such column"):
        files.append(ROWS, {"position": "c"})
    assert len(catalog.sent) == 1


@pytest.mark.parametrize("error", [CommitStateUnknownException("502"), ConnectionResetError(), TimeoutError("late")])
def test_a_commit_without_an_answer_is_never_sent_again_by_itself(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, files = append(monkeypatch, error)
    with pytest.raises(AppendUnknown) as unknown:
        files.append(ROWS, {"position": "c"})
    assert len(catalog.sent) == 1
    assert is_uncertain(unknown.value)
    assert not is_refusal(unknown.value)


def read(error: Exception) -> pa.Table | str:
    def load(_: str) -> Any:
        raise error

    loader: Any = SimpleNamespace(load=load)
    handle: Any = None
    plan: Any = None
    return StoreFiles(lambda _: loader).read_rows(handle, plan, ROWS)


def test_files_that_pyarrow_cannot_read_are_left_to_spark() -> None:
    assert read(ValueError("equality deletes")) == "equality deletes"
    assert read(TooManyBytes("9 bytes of files")) == "9 bytes of files"


def test_a_file_that_the_run_may_not_open_ends_the_run() -> None:
    with pytest.raises(Refused, match="elsewhere"):
        read(Refused("elsewhere"))
