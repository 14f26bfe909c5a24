"""Tables that no run may write, because it cannot bring any row into them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.errors import Refused
from optimizer.pipelines import target
from optimizer.pipelines.target import PipelineTarget

KEYED = {"sequence_field": None, "has_partial_columns": False, "is_insert_only": False}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sequence_field": "at"}, r"lake\.mart\.t has the sequence field at: a computed row that is older"),
        ({"has_partial_columns": True}, r"takes changes of some columns, so others may write it \(firn\.partial\)"),
        ({"is_insert_only": True}, r"is insert-only \(firn\.insert-only\)"),
    ],
)
def test_a_table_that_others_write_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(target, "load_target", lambda *_: SimpleNamespace(**{**KEYED, **changes}))
    lake: Any = SimpleNamespace(spark=None, parts=lambda table: ("lake", *table.split(".")), path=lambda t: f"lake.{t}")
    shown: Any = None
    with pytest.raises(Refused, match=reason) as refused:
        PipelineTarget(lake, "mart.t", shown).load_keyed()
    assert "create its table" in str(refused.value)
