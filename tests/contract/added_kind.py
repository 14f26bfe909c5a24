"""Run in a copy of the code to which docs/adding-a-job-kind.md was applied: uses the new kind as a client would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import catalog
from catalog.jobs.job import JobKind
from optimizer.jobs import JOBS
from server.api.table_jobs import StartJobIn
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.server.lake import PLAIN, Lake, a_lake

TABLE = "/api/v1/catalogs/lake/tables/db.plain"
REQUEST = {"kind": "census", "options": {"columns": ["id"]}}


def main(root: Path) -> None:
    """Fails unless the kind is known everywhere."""
    assert Path(catalog.__file__).is_relative_to(root)
    engine = open_engine(f"sqlite:///{root / 'firn.db'}")
    upgrade_schema(engine)
    lake = a_lake(SqlDatabase(Sessions(engine)), root)
    lake.create(PLAIN)
    lake.append(PLAIN)
    check(lake)


def check(lake: Lake) -> None:
    """As planner, as a person, and as an optimizer."""
    planned = lake.client.get(f"{TABLE}/explain").json()
    assert (planned["due"], planned["kind"]) == (True, "census"), planned
    dry = lake.client.post(f"{TABLE}/jobs?dry_run=true", json=REQUEST).json()
    assert dry["action"].startswith("count "), dry
    assert "census" in StartJobIn.model_json_schema()["discriminator"]["mapping"]
    refused = lake.client.post(f"{TABLE}/jobs", json={"kind": "census", "options": {"columns": "id"}})
    assert refused.status_code == 422, refused.text
    job: dict[str, Any] = lake.client.post(f"{TABLE}/jobs", json=REQUEST).json()
    assert (job["kind"], job["status"], job["params"]["columns"]) == ("census", "pending", ["id"]), job
    assert (
        "census" in lake.client.get(TABLE).json()["unavailable_actions"]
        or "census" in lake.client.get(TABLE).json()["allowed_actions"]
    )
    leased_job = lake.services.jobs.take(lake.optimizer(), [JobKind(name) for name in JOBS])
    assert leased_job is not None
    assert lake.services.tasks.build(leased_job.job).model_dump() == {
        "parts": ["db", "plain"],
        "options": {"columns": ["id"]},
    }
    sys.stdout.write("planned, dry-run, offered, started, leased\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
