"""Tries the parts of the provider one by one, against a server without an optimizer: runs wait for ever."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import firn.integrations.airflow
from firn.integrations.airflow.provider import get_provider_info

is_cheap = not any(name.partition(".")[0] == "airflow" for name in sys.modules)

import jsonschema  # type: ignore[import-untyped]  # noqa: E402 -- what comes before imports no Airflow
from airflow.providers_manager import ProvidersManager  # noqa: E402
from airflow.sdk import DAG, Asset, Connection  # noqa: E402
from airflow.sdk.exceptions import AirflowException  # noqa: E402
from airflow.sdk.module_loading import import_string  # noqa: E402

import firn  # noqa: E402
from firn.errors import FirnError  # noqa: E402
from firn.integrations.airflow import FirnHook, FirnPipelineOperator, PipelineRunTrigger, table_asset  # noqa: E402
from firn.integrations.airflow.assets import read_asset  # noqa: E402
from firn.integrations.airflow.hook import read_address  # noqa: E402

pipeline, number = os.environ["PIPELINE"], os.environ["PIPELINE"].rpartition("_")[2]
client = firn.connect(os.environ["FIRN_URL"])


def describe_provider() -> dict[str, Any]:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)
    manager = ProvidersManager()
    hook = manager.hooks["firn"]
    return {
        "provider": "firn" in manager.providers,
        "hook": [hook.hook_name, hook.connection_id_attribute_name],
        "handler": "firn" in manager.asset_uri_handlers,
    }


def try_addresses() -> dict[str, str]:
    addresses = {}
    for fields in (
        {"host": "h"},
        {"host": "h", "schema": "https", "port": 443},
        {"host": "http://h:1/"},
        {"host": "::1"},
        {"host": "h", "schema": "ftp"},
        {},
    ):
        try:
            addresses[json.dumps(fields)] = read_address(Connection(conn_id="c", conn_type="firn", **fields))
        except FirnError as error:
            addresses[json.dumps(fields)] = type(error).__name__
    return addresses


def try_assets() -> dict[str, Any]:
    refused = []
    for uri in ("firn://lake/orders", "firn://", "firn://lake/a//b", "firn://lake/a/b?c=d"):
        try:
            Asset(uri)
        except ValueError:
            refused.append(uri)
    odd = table_asset("`a.b`.x/y ?#@:ä", catalog="l@ke:1")
    return {"uri": odd.uri, "back": read_asset(odd.uri), "refused": refused, "other": read_asset("s3://a/b/c")}


def build_key(try_number: int, max_tries: int, **more: Any) -> tuple[str, int]:
    operator = FirnPipelineOperator(task_id="t", pipeline=pipeline, retries=2)
    place = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, **more}
    order = operator._build_order({"ti": SimpleNamespace(try_number=try_number, max_tries=max_tries, **place)})
    return order.key, order.attempt


def try_keys() -> dict[str, Any]:
    first = build_key(1, 2)
    others = [build_key(1, 2, **more) for more in ({"run_id": "s"}, {"map_index": 0}, {"dag_id": "dr", "run_id": ""})]
    return {
        "retry": [build_key(3, 2)[0] == first[0], build_key(3, 2)[1]],
        "cleared": [build_key(4, 5)[0] == first[0], build_key(4, 5)[1], build_key(5, 5) == (build_key(4, 5)[0], 2)],
        "others": len({first[0], *(key for key, _ in others)}),
    }


def try_backfill() -> dict[str, Any]:
    """The order of a range with templates, its trigger as Airflow stores it, and refusals that no retry repeats."""
    days: Any = {"column": "day", "start": "{{ ds }}", "end": "{{ macros.ds_add(ds, 1) }}"}
    table = f"mart.daily_{number}"
    operator_class = firn.integrations.airflow.FirnBackfillOperator
    operator = operator_class(task_id="t", pipeline=pipeline, table=table, retries=2, **days)
    operator.render_template_fields({"ds": "2026-11-28", "macros": SimpleNamespace(ds_add=lambda *_: "2026-11-29")})
    place = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1, "max_tries": 2}
    order = operator._build_order({"ti": SimpleNamespace(**place)})
    trigger = operator.trigger_class(firn_conn_id="firn_default", order=asdict(order))
    path, arguments = trigger.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    contradictory = operator_class(task_id="u", pipeline=pipeline, table=table, where="true", column="day")
    errors = []
    for refused in (operator, contradictory):
        try:
            refused.execute({"ti": SimpleNamespace(**place)})
        except AirflowException as error:
            errors.append([type(error).__name__, str(error)])
    return {
        "where": order.where,
        "same": again.work.order == order,
        "outlets": [asset.uri for asset in operator.outlets],
        "errors": errors,
    }


async def try_trigger() -> dict[str, Any]:
    """A triggerer that starts again, and a user who kills the task."""
    operator = FirnPipelineOperator(task_id="t", pipeline=pipeline, tables=f"daily_{number}", poll_seconds=0.1)
    instance = SimpleNamespace(try_number=1, max_tries=0, dag_id="d", run_id="r", task_id="t", map_index=-1)
    order = asdict(operator._build_order({"ti": instance}))
    seen = []
    for is_killed in (False, True):
        trigger = PipelineRunTrigger(firn_conn_id="firn_default", order=order)
        path, arguments = trigger.serialize()
        again = import_string(path)(**json.loads(json.dumps(arguments)))
        waiting = asyncio.ensure_future(anext(again.run()))
        while again.work.active is None:  # noqa: ASYNC110 -- nobody tells when it has begun
            await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if is_killed:
            await again.on_kill()
        seen.append([run.status for run in client.pipelines[pipeline].runs()])
    return {"statuses": seen}


def try_hook() -> dict[str, Any]:
    return {"works": FirnHook().test_connection(), "away": FirnHook("away").test_connection()}


def try_page() -> dict[str, Any]:
    """The DAGs of the page of the documentation, with the assets that their tasks update."""
    dags = {}
    for text in json.loads(os.environ["BLOCKS"]):
        names: dict[str, Any] = {}
        exec(text, names)
        for dag in (value for value in names.values() if isinstance(value, DAG)):
            dags[dag.dag_id] = sorted(outlet.uri for task in dag.tasks for outlet in task.outlets)
    return dags


result = {
    "page": try_page(),
    "cheap": is_cheap,
    "provider": describe_provider(),
    "addresses": try_addresses(),
    "assets": try_assets(),
    "keys": try_keys(),
    "backfill": try_backfill(),
    "trigger": asyncio.run(try_trigger()),
    "hook": try_hook(),
}
print("RESULT " + json.dumps(result))  # noqa: T201 -- the test reads it
