"""A scan whose pin or files go away meanwhile: it looks again, and says what is gone when that does not help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError

from firn.errors import NotFound, Unavailable
from firn.scan import Pin, Scan
from firn.scan import scan as module

ROWS = pa.table({"id": [1]})


@dataclass
class Vanishing:
    """A plain table that cannot be read the first times."""

    problems: list[Exception]
    loads: int = field(default=0)

    def pin(self) -> Pin | None:
        return None

    def load(self, name: Sequence[str] | None = None) -> Any:
        self.loads += 1
        if self.problems:
            raise self.problems.pop(0)
        return ROWS


@pytest.fixture(autouse=True)
def _reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_plain", lambda scan: scan.source.load())


def test_what_has_gone_meanwhile_is_looked_for_again() -> None:
    source = Vanishing([NoSuchTableError("pinned"), FileNotFoundError("f0.parquet")])
    assert Scan(source=source).to_arrow() is ROWS
    assert source.loads == 3


def test_what_stays_away_is_named() -> None:
    with pytest.raises(NotFound, match="pinned"):
        Scan(source=Vanishing([NoSuchTableError("pinned")] * 3)).to_arrow()
    with pytest.raises(Unavailable, match=r"f0\.parquet") as gone:
        Scan(source=Vanishing([FileNotFoundError("f0.parquet")] * 3)).to_arrow()
    assert "firn hive sync" in (gone.value.hint or "")
