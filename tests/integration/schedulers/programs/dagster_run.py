"""Materializes the tables of a pipeline, observes its input, and prints what Dagster has recorded."""

from __future__ import annotations

import json
import os

from dagster import AssetKey, DagsterInstance, Definitions, EnvVar, build_sensor_context, materialize

from firn.integrations.dagster import FirnResource, firn_assets, firn_commit_sensor, load_pipeline

pipeline, number = os.environ["PIPELINE"], os.environ["PIPELINE"].rpartition("_")[2]
firn = FirnResource(url=EnvVar("FIRN_URL"))
assets = firn_assets(load_pipeline(firn, pipeline), group_name="orders", poll_seconds=0.2, patience_seconds=20)
sensor = firn_commit_sensor(firn, [f"raw.trip_{number}", "raw.not_there"])
definitions = Definitions(assets=assets, sensors=[sensor], resources={"firn": firn})
page: dict[str, object] = {}  # the program of the documentation, with this server and this pipeline
program = os.environ["BLOCK"].replace("https://firn.example.com", os.environ["FIRN_URL"]).replace('"orders")', "name)")
exec(program, page | {"name": pipeline})
graph = definitions.resolve_asset_graph()
result: dict[str, object] = {
    "parents": {
        key.to_user_string(): sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    }
}
instance = DagsterInstance.ephemeral()
done = materialize(assets, instance=instance, resources={"firn": firn}, raise_on_error=False)
result["success"] = done.success
result["materialized"] = {
    event.asset_key.to_user_string(): {name: item.value for name, item in event.materialization.metadata.items()}
    for event in done.get_asset_materialization_events()
}
result["failures"] = [
    {
        "message": event.step_failure_data.error.cause.message if event.step_failure_data.error.cause else "",
        "description": event.step_failure_data.user_failure_data.description,
    }
    for event in done.get_step_failure_events()
    if event.step_failure_data.user_failure_data
]
first = sensor(build_sensor_context(instance=instance))
second = sensor(build_sensor_context(instance=instance, cursor=first.cursor))
garbage = sensor(build_sensor_context(instance=instance, cursor="[not ours"))
result["observed"] = [event.asset_key.to_user_string() for event in first.asset_events]
result["observed_again"] = [len(second.asset_events), len(garbage.asset_events)]
record = instance.get_latest_materialization_event(AssetKey(["lake", "mart", f"daily_{number}"]))
result["version"] = None if record is None else record.asset_materialization.tags.get("dagster/data_version")
print("RESULT " + json.dumps(result))  # noqa: T201 -- the test reads it
