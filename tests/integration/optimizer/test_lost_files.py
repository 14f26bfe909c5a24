"""What a job says of a file that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer


@pytest.mark.spark
def test_a_job_whose_file_is_gone_names_it_and_java_goes_to_its_log(server: RunningServer, worker: Worker) -> None:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "v", **{"firn.primary-key": "id"})
    table.upsert((1, "a"))
    table.run("merge")
    table.upsert((1, "b"))
    [(path,)] = server.rows(f"SELECT file_path FROM {table.name}.base.files")
    Path("/" + path.removeprefix("file:").lstrip("/")).unlink()
    job = table.run("merge", mode="rewrite")
    log = server.http.get(f"/api/v1/jobs/{job['id']}/logs").json()
    assert (job["status"], any("at org.apache" in line["line"] for line in log)) == ("failed", True), log
    assert f"the file {path} is gone: something other than Firn" in job["error"].replace("file:///", "file:/")
