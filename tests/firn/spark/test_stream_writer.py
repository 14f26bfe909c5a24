"""What a copy of a writer commits, skips and refuses; and what it learns after a lost answer. No Spark, no server."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from firn.errors import Unreachable
from firn.protocol.answers.writers import WriterOut
from firn.spark import stream_writer
from firn.spark.batch_steps import BatchStep
from firn.spark.errors import CommitRefused, WriteUnknown
from firn.spark.positions import TopicPosition
from firn.spark.stream_writer import StreamWriter

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
MINE = WriterOut(
    name="orders",
    epoch=2,
    position=None,
    registered_at=NOON,
    registered_by=None,
    committed_at=None,
    snapshot_id=None,
    fenced_at=None,
)


class Refused(Exception):
    pass


class Unanswered(Exception):
    pass


@dataclass
class Server:
    """The server's answers about the writer, in order; the last one is repeated."""

    answers: list[WriterOut | Exception] = field(default_factory=list)

    def get(self, _name: str) -> WriterOut:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _errors_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "is_refusal", lambda error: isinstance(error, Refused))
    monkeypatch.setattr(stream_writer, "is_uncertain", lambda error: isinstance(error, Unanswered))
    monkeypatch.setattr(stream_writer, "reason", str)
    monkeypatch.setattr("firn.spark.stream_writer.time.sleep", lambda _seconds: None)


def a_writer(position: str | None = None, *answers: WriterOut | Exception) -> StreamWriter:
    client: Any = SimpleNamespace(tables={"db.t": SimpleNamespace(writers=Server(list(answers)))})
    return StreamWriter("lake.db.t", client, "db.t", MINE.model_copy(update={"position": position}))


def step(start: str | None, end: str | None, batch: int = 3, first: str | None = "t:0:0") -> BatchStep:
    positions = (None if text is None else TopicPosition.parse(text) for text in (start, end, first))
    return BatchStep("query", batch, *positions)


def commits(writer: StreamWriter, step: BatchStep, *errors: Exception) -> list[dict[str, str]]:
    """The summaries that were sent; the first sends fail with these errors."""
    sent: list[dict[str, str]] = []
    failing = list(errors)

    def append(summary: dict[str, str]) -> None:
        sent.append({key.removeprefix("snapshot-property.firn."): value for key, value in summary.items()})
        if failing:
            raise failing.pop(0)

    writer.commit(step, append)
    return sent


def test_a_chain_of_batches_names_both_positions_of_each_step() -> None:
    writer = a_writer()
    assert commits(writer, step("t:0:0", "t:0:5")) == [
        {"writer-id": "orders", "writer-epoch": "2", "position-from": "none", "position": "t:0:5"}
    ]
    assert commits(writer, step("t:0:5", "t:0:9,1:2")) == [
        {"writer-id": "orders", "writer-epoch": "2", "position-from": "t:0:5", "position": "t:0:9,1:2"}
    ]


def test_a_batch_that_the_table_has_is_skipped() -> None:
    writer = a_writer("t:0:9,1:4")
    assert commits(writer, step("t:0:0", "t:0:5,1:4")) == []
    assert commits(writer, step("t:0:5,1:4", "t:0:9,1:4")) == []


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        ("t:0:5", "t:0:12", "the table has a part of it already"),  # an older or a lost checkpoint
        ("t:0:5,1:0", "t:0:9,1:3", "the table has a part of it already"),
        ("t:0:11", "t:0:12", "the records between are missing"),  # a newer checkpoint, or startingOffsets=latest
        (None, "t:0:12", "unknown position"),
    ],
)
def test_a_batch_that_does_not_begin_at_the_position_is_never_cut(start: str | None, end: str, says: str) -> None:
    with pytest.raises(CommitRefused, match=rf"{says}[\s\S]*firn\.spark\.resume\('lake\.db\.t', writer='orders'\)"):
        commits(a_writer("t:0:9"), step(start, end))


@pytest.mark.parametrize(("start", "first"), [("t:0:5", "t:0:0"), ("t:0:5", None), (None, "t:0:0")])
def test_a_table_without_a_position_takes_no_batch_from_the_midst_of_a_query(
    start: str | None, first: str | None
) -> None:
    with pytest.raises(CommitRefused, match="the records between are missing"):
        commits(a_writer(), step(start, "t:0:9", first=first))
    assert len(commits(a_writer(), step("t:0:5", "t:0:9", first="t:0:5"))) == 1  # the batches before had no records
    assert len(commits(a_writer(), step(None, "t:0:9", batch=0, first=None))) == 1


@pytest.mark.parametrize("position", ["other:0:9", "file 7"])
def test_a_position_in_another_source_is_refused(position: str) -> None:
    with pytest.raises(CommitRefused, match="use another writer for another source"):
        commits(a_writer(position), step("t:0:9", "t:0:12"))


def test_after_a_lost_answer_the_server_tells_that_the_commit_is_there() -> None:
    writer = a_writer("t:0:9", MINE.model_copy(update={"position": "t:0:12"}))
    assert len(commits(writer, step("t:0:9", "t:0:12"), Unanswered())) == 1
    assert len(commits(writer, step("t:0:12", "t:0:13"))) == 1


def test_after_a_lost_request_the_same_commit_is_sent_again() -> None:
    before = MINE.model_copy(update={"position": "t:0:9"})
    writer = a_writer("t:0:9", Unreachable("no answer"), before)
    first, second = commits(writer, step("t:0:9", "t:0:12"), Unanswered())
    assert first == second
    assert len(commits(writer, step("t:0:12", "t:0:13"))) == 1


def test_a_late_commit_that_refuses_its_repetition_counts() -> None:
    before, after = (MINE.model_copy(update={"position": position}) for position in ("t:0:9", "t:0:12"))
    writer = a_writer("t:0:9", before, after)
    assert len(commits(writer, step("t:0:9", "t:0:12"), Unanswered(), Refused("it begins at t:0:9"))) == 2


def test_a_server_that_stays_away_leaves_it_unknown() -> None:
    writer = a_writer("t:0:9", Unreachable("no answer"))
    with pytest.raises(WriteUnknown, match="start the query again, the batch is applied once"):
        commits(writer, step("t:0:9", "t:0:12"), Unanswered())
    before = MINE.model_copy(update={"position": "t:0:9"})
    with pytest.raises(WriteUnknown):
        commits(a_writer("t:0:9", before), step("t:0:9", "t:0:12"), *[Unanswered()] * 4)


@pytest.mark.parametrize("error", [Refused("fenced"), Unanswered()])
def test_a_fenced_copy_is_told_when_the_newer_one_started(error: Exception) -> None:
    newer = MINE.model_copy(update={"epoch": 3, "registered_by": "ada", "position": "t:0:12"})
    with pytest.raises(
        CommitRefused, match="epoch 3, was started at 2026-11-26 12:00:00 UTC by ada; this copy, epoch 2"
    ):
        commits(a_writer("t:0:9", newer), step("t:0:9", "t:0:12"), error)
    ended = MINE.model_copy(update={"fenced_at": NOON})
    with pytest.raises(CommitRefused, match="fenced for good at 2026-11-26 12:00:00 UTC"):
        commits(a_writer("t:0:9", ended), step("t:0:9", "t:0:12"), error)


def test_a_refusal_for_another_reason_keeps_its_words() -> None:
    before = MINE.model_copy(update={"position": "t:0:9"})
    with pytest.raises(CommitRefused, match=r"lake\.db\.t: no such table"):
        commits(a_writer("t:0:9", before), step("t:0:9", "t:0:12"), Refused("no such table"))


def test_rows_that_fail_are_not_settled_with_the_server() -> None:
    with pytest.raises(ZeroDivisionError):
        commits(a_writer("t:0:9"), step("t:0:9", "t:0:12"), ZeroDivisionError())


def test_a_source_without_positions_gets_the_query_and_its_batch_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = a_writer()
    assert commits(writer, step(None, None)) == [{"writer-id": "orders", "batch-id": "query/3"}]
    commits(writer, step(None, None, batch=4))
    (warning,) = caplog.messages
    assert "if the query loses its checkpoint, its rows are written twice" in warning
