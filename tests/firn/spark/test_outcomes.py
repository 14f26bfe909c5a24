"""What becomes of an attempt that fails: in words that are true of the table.  Java's side is made up here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from firn.spark import write
from firn.spark.errors import CommitRefused, RowsRefused, WriteUnknown
from firn.spark.target import Target
from firn.spark.write import TRIES, Written

ICEBERG = "org.apache.iceberg.exceptions."
TARGET = Target(
    name="lake.db.t",
    change="lake.db.t.change",
    key=("id",),
    sequence_field=None,
    is_partition_scoped=False,
    has_partial_columns=False,
    fields=(),
    partition_columns=(),
)


def test_a_part_of_a_sequence_group_is_refused() -> None:
    groups = {"mail": "at", "at": "at", "city": "moved", "moved": "moved"}
    target = replace(TARGET, has_partial_columns=True, groups=groups)
    for columns, missing in ((["mail"], "at"), (["at"], "mail"), (["mail", "at", "moved"], "city")):
        with pytest.raises(RowsRefused, match=f"a sequence group are set together: name {missing}, too"):
            write.check_whole_groups(target, columns)
    write.check_whole_groups(target, ["mail", "at", "note"])


class Java:
    """A Java exception, as py4j shows one."""

    def __init__(self, name: str, message: str, cause: Java | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> Any:  # noqa: N802 -- Java's name
        return SimpleNamespace(getName=lambda: self.name)

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> Java | None:  # noqa: N802
        return self.cause


def thrown(name: str, message: str = "no") -> Exception:
    """A failure of Spark's writer with its cause."""
    error = PySparkException(message)
    error._origin = Java("org.apache.spark.SparkException", "aborted", Java(name, message))  # type: ignore[attr-defined]
    return error


LOST = ICEBERG + "CommitStateUnknownException"
REFUSED = ICEBERG + "CommitFailedException"


class Attempts:
    """What each attempt ends with, None for success, and whether the batch is found afterwards."""

    def __init__(self, *ends: Exception | None, is_recorded: Callable[[int], bool] = lambda _: False) -> None:
        self.ends, self.is_recorded = list(ends), is_recorded
        self.made = self.explained = 0

    def append(self, *_: object) -> None:
        end = self.ends[min(self.made, len(self.ends) - 1)]
        self.made += 1
        if end is not None:
            raise end

    def explain(self, *_: object) -> None:
        self.explained += 1


Run = Callable[[Attempts], Written]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def tried(attempts: Attempts) -> Written:
        monkeypatch.setattr(write, "_append", attempts.append)
        monkeypatch.setattr(write, "_explain", attempts.explain)
        monkeypatch.setattr(write, "_is_in_table", lambda *_: attempts.is_recorded(attempts.made))
        monkeypatch.setattr(write, "time", SimpleNamespace(sleep=lambda _: None))
        frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(conf={"spark.app.name": "app"}))
        return write._write(frame, TARGET, op="U", batch="b", writer=None)

    return tried


def test_a_refusal_of_the_first_attempt_is_certain(run: Run) -> None:
    attempts = Attempts(thrown(REFUSED, "stale"))
    with pytest.raises(CommitRefused, match="stale"):
        run(attempts)
    assert (attempts.made, attempts.explained) == (1, 0)


def test_rows_are_looked_at_only_when_nothing_can_have_been_committed(run: Run) -> None:
    attempts = Attempts(thrown("java.lang.RuntimeException", "null or repeated keys"))
    with pytest.raises(PySparkException, match="repeated"):
        run(attempts)
    assert (attempts.made, attempts.explained) == (1, 1)


def test_a_batch_that_the_catalog_has_is_there(run: Run) -> None:
    again = thrown(ICEBERG + "BadRequestException", "batch b was committed before, in snapshot 7")
    assert run(Attempts(again)) == Written("lake.db.t", "app", "b", was_there=True)
    assert run(Attempts(thrown(LOST), again)).was_there


def test_a_lost_answer_is_looked_for_then_sent_again(run: Run) -> None:
    assert run(Attempts(thrown(LOST), is_recorded=lambda count: count == 1)).was_there
    attempts = Attempts(thrown(LOST), None)
    assert run(attempts) == Written("lake.db.t", "app", "b", was_there=False)
    assert attempts.made == 2


@pytest.mark.parametrize(
    "later",
    [
        thrown(REFUSED),
        thrown(ICEBERG + "ForbiddenException"),
        thrown("java.lang.RuntimeException", "null or repeated keys"),
        thrown(LOST),
        RowsRefused("rows"),
        Py4JNetworkError("gone"),
    ],
    ids=["refused", "forbidden", "anything", "lost", "rows", "no JVM"],
)
def test_behind_a_lost_answer_no_failure_is_certain(run: Run, later: Exception) -> None:
    attempts = Attempts(thrown(LOST), later)
    with pytest.raises(WriteUnknown, match="batch 'b' of writer 'app'; send it again under that name"):
        run(attempts)
    assert (attempts.made, attempts.explained) == (TRIES, 0)


@pytest.mark.parametrize("gone", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111)])
def test_a_jvm_that_is_gone_tells_nothing(run: Run, gone: Exception) -> None:
    with pytest.raises(WriteUnknown):
        run(Attempts(gone))


def test_a_table_that_cannot_be_asked_has_not_been_found_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: str) -> None:
        raise ConnectionRefusedError(111)

    monkeypatch.setattr(write, "F", SimpleNamespace(col=lambda _: {"firn.writer-id": 1, "firn.batch-id": 2}))
    session: Any = SimpleNamespace(sql=gone)
    assert write._is_in_table(session, TARGET, Written("lake.db.t", "app", "b"), "U") is False


def test_the_name_to_send_a_delete_again_under_is_the_one_it_was_sent_under() -> None:
    sent = write._format_batch_id("b", "D")
    assert sent != write._format_batch_id("b", "U")
    assert write._format_batch_id("b", "D") == sent
