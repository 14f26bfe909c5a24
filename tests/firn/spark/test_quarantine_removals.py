"""Removals of records that a retry has sent, while a job packs the files of the quarantine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from firn.errors import FirnError
from firn.record_names import RecordNames
from firn.spark.quarantine_retry import TRIES, Retry


class Packed:
    """A session whose first deletes meet files that a job has replaced."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts, self.deletes = conflicts, 0

    def sql(self, statement: str) -> None:
        if statement.startswith("DELETE"):
            self.deletes += 1
            if self.deletes <= self.conflicts:
                raise RuntimeError("Missing required files to delete")

    def table(self, _name: str) -> Any:
        return SimpleNamespace(where=lambda _condition: SimpleNamespace(isEmpty=lambda: False))


def retry_over(spark: Packed) -> tuple[Retry, list[float]]:
    pauses: list[float] = []
    target, handle = SimpleNamespace(name="lake.db.orders"), SimpleNamespace(name="db.orders")
    retry = Retry(cast("Any", spark), cast("Any", handle), cast("Any", target), cast("Any", None), pause=pauses.append)
    return retry, pauses


@pytest.mark.parametrize("conflicts", [0, 1, TRIES - 1])
def test_a_removal_reads_again_when_a_job_was_faster(conflicts: int) -> None:
    spark = Packed(conflicts)
    retry, pauses = retry_over(spark)
    retry.remove(RecordNames.of("topic", [(0, 5), (1, 7)]))
    assert (spark.deletes, len(pauses)) == (conflicts + 1, conflicts)


def test_a_removal_that_never_succeeds_says_what_to_do() -> None:
    retry, pauses = retry_over(Packed(TRIES))
    with pytest.raises(FirnError, match="2 records that the retry could not remove") as refused:
        retry.remove(RecordNames.of("topic", [(0, 5), (1, 7)]))
    assert "sends no record twice" in (refused.value.hint or "")
    assert len(pauses) == TRIES - 1
