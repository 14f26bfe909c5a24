"""Random histories of jobs and leases agree with a plain model of the rules."""

from __future__ import annotations

from pathlib import Path

from tests.server.service.lease_model import LeaseHistory
from tests.server.service.random_runs import run_histories


def test_jobs_and_leases_follow_their_rules(migrated_sqlite: Path, tmp_path: Path) -> None:
    run_histories(LeaseHistory, migrated_sqlite, tmp_path, most=40, steps=40)
