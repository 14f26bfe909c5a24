"""A sample keeps as many rows as fit; a row that is too wide does not keep out narrow ones."""

from __future__ import annotations

from firn.protocol.held_rows import LONGEST_VALUE, MOST_CHARACTERS, RowSample, SampledRow
from optimizer.pipelines.sampling import _limit


def test_rows_that_do_not_fit_are_left_out() -> None:
    wide = SampledRow(
        before=None, after={f"c{i}": "x" * LONGEST_VALUE for i in range(MOST_CHARACTERS // LONGEST_VALUE)}
    )
    narrow = SampledRow(before={"id": "1"}, after={"id": None})
    kept = _limit([narrow, wide, narrow])
    assert kept == [narrow, narrow]
    RowSample(rows=kept)
