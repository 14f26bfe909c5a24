"""Random histories of drops and undrops agree with a plain model of the rules."""

from __future__ import annotations

from pathlib import Path

from tests.server.service.dropping_model import DroppingHistory
from tests.server.service.random_runs import run_histories


def test_drops_undrops_and_purges_follow_their_rules(migrated_sqlite: Path, tmp_path: Path) -> None:
    run_histories(DroppingHistory, migrated_sqlite, tmp_path, most=25, steps=30)
