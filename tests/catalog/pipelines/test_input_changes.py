"""The changes of an input, as the summaries of its snapshots count them."""

from __future__ import annotations

from typing import Any

from catalog.history.lineage import Lineage
from catalog.pipelines.input_changes import ChangeCounts, PlainChangeCounter


class CountedSummary(dict[str, Any]):
    """A summary that counts how often its operation is read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += key == "operation"
        return super().get(key, default)


def build_lineage(count: int) -> tuple[Lineage, list[CountedSummary]]:
    summaries = [
        CountedSummary({"operation": "append", "added-data-files": "2", "added-files-size": "10", "added-records": "5"})
        for _ in range(count)
    ]
    snapshots = [
        {"snapshot-id": number, "parent-snapshot-id": number - 1 if number > 1 else None, "summary": summary}
        for number, summary in enumerate(summaries, 1)
    ]
    return Lineage.of({"snapshots": snapshots}), summaries


def test_each_summary_is_read_once_for_any_number_of_pins() -> None:
    lineage, summaries = build_lineage(6)
    counter = PlainChangeCounter(lineage)
    counts = [counter.count(since, 6) for since in (None, 1, 2, 3, 4, 5, 6)]
    assert [entry.commits for entry in counts] == [6, 5, 4, 3, 2, 1, 0]
    assert counts[1] == ChangeCounts(commits=5, files=10, bytes=50, rows=25)
    assert [summary.reads for summary in summaries] == [1] * 6


def test_a_compaction_counts_with_its_files_and_no_rows() -> None:
    lineage, summaries = build_lineage(2)
    summaries[1].update({"operation": "replace", "deleted-data-files": "1", "removed-files-size": "3"})
    assert PlainChangeCounter(lineage).count(1, 2) == ChangeCounts(commits=1, files=3, bytes=13)
