"""Materializes the tables of a pipeline: at first, as Dagster's retry of a dead run, or as a repetition of a user.

Its argument says which one. Dagster keeps the runs in DAGSTER_HOME.
"""

from __future__ import annotations

import json
import os
import sys

from dagster import (
    DagsterInstance,
    Definitions,
    EnvVar,
    JobDefinition,
    ReexecutionOptions,
    define_asset_job,
    execute_job,
    in_process_executor,
    reconstructable,
)

from firn.integrations.dagster import FirnResource, firn_assets, load_pipeline


def build_job() -> JobDefinition:
    firn = FirnResource(url=EnvVar("FIRN_URL"))
    assets = firn_assets(load_pipeline(firn, os.environ["PIPELINE"]), poll_seconds=0.2, patience_seconds=20)
    jobs = [define_asset_job("tables")]
    return Definitions(assets, jobs=jobs, resources={"firn": firn}, executor=in_process_executor).resolve_job_def(
        "tables"
    )


def main(kind: str) -> None:
    instance = DagsterInstance.get()
    options, tags = None, {}
    for last in instance.get_runs(limit=1):
        options = ReexecutionOptions(last.run_id)
        if kind == "retry":
            instance.report_run_failed(last)  # as the monitor of runs does that finds its process dead
            options = ReexecutionOptions.from_failure(last.run_id, instance)
            tags = {"dagster/retry_number": "1"}  # as the daemon marks the runs that it starts
    done = execute_job(reconstructable(build_job), instance, tags=tags, reexecution_options=options)
    runs = [
        str(event.materialization.metadata["run_id"].value)
        for event in done.all_events
        if event.is_step_materialization
    ]
    print("RESULT " + json.dumps({"success": done.success, "runs": runs}))  # noqa: T201 -- the test reads it


if __name__ == "__main__":
    main(sys.argv[1])
