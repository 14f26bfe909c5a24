"""The operator that runs tables of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context, conf

from firn.client import DEFAULT_CATALOG
from firn.errors import FirnError
from firn.integrations.airflow.assets import read_asset, table_asset
from firn.integrations.airflow.hook import DEFAULT_CONNECTION, FirnHook, build_exception, describe, is_permanent
from firn.integrations.airflow.triggers import PipelineRunTrigger
from firn.integrations.drivers import run_steps
from firn.integrations.runs import POLL_SECONDS, PipelineRun, RunOrder, build_key, summarize_run
from firn.integrations.steps import PATIENCE_SECONDS
from firn.integrations.tables import full_name

_CANCEL_SECONDS = 120
"""How much longer than the task's time Airflow waits for the trigger, which cancels the run at its end."""


class FirnPipelineOperator(BaseOperator):
    """Runs tables of a pipeline, by default all of them, each after those that it reads.

    The result has the facts of each run: rows, bytes, checkpoint. With `deferrable` no worker waits. The task's retry
    takes over the run of its last attempt unless that has failed. Tables that are named become assets that the task
    updates, unless the task has `outlets`.

    :param pipeline: the name of the pipeline
    :param tables: NAMESPACE.TABLE, or several
    :param full: compute all rows
    :param to: a time with its zone; the runs take no later commits to their inputs
    :param catalog: the catalog of the pipeline's tables, for their assets
    :param waits_for_approval: wait while the rows of a run wait until a user publishes them; otherwise the task fails
    :param patience_seconds: how long the server may be away before the task fails
    """

    template_fields: Sequence[str] = ("pipeline", "tables", "to")
    ui_color = "#d7e9f5"

    def __init__(
        self,
        *,
        pipeline: str,
        tables: str | Sequence[str] = (),
        full: bool = False,
        to: str | datetime | None = None,
        catalog: str = DEFAULT_CATALOG,
        firn_conn_id: str = DEFAULT_CONNECTION,
        waits_for_approval: bool = True,
        poll_seconds: float = POLL_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **arguments: Any,
    ) -> None:
        arguments.setdefault("outlets", list_assets(tables, catalog))
        super().__init__(**arguments)
        self.pipeline = pipeline
        self.tables = tables
        self.full = full
        self.to = to
        self.catalog = catalog
        self.firn_conn_id = firn_conn_id
        self.waits_for_approval = waits_for_approval
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds
        self.deferrable = deferrable
        self._run: PipelineRun | None = None

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Run the tables, or have the triggerer do it."""
        order = self._build_order(context)
        if self.deferrable:
            limit: timedelta | None = self.execution_timeout
            ends_at = None if limit is None else (datetime.now(UTC) + limit).isoformat()
            trigger = PipelineRunTrigger(firn_conn_id=self.firn_conn_id, order=asdict(order), ends_at=ends_at)
            wait = None if limit is None else limit + timedelta(seconds=_CANCEL_SECONDS)
            self.defer(trigger=trigger, method_name="execute_complete", timeout=wait)
        self._run = PipelineRun(order)
        try:
            with FirnHook(self.firn_conn_id).get_conn() as client:
                runs = run_steps(self._run.steps(), client.transport)
        except FirnError as error:
            message = describe(error, self.firn_conn_id)
            raise build_exception(message, permanent=is_permanent(error)) from error
        return self._finish(context, [summarize_run(run) for run in runs])

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Go on after the triggerer has seen the end of the runs."""
        if event["status"] != "success":
            raise build_exception(str(event["message"]), permanent=bool(event["permanent"]))
        return self._finish(context, event["runs"])

    def on_kill(self) -> None:
        """Cancel the active run: the task is stopped, or its time is over."""
        if self._run is None:
            return
        try:
            with FirnHook(self.firn_conn_id).get_conn() as client:
                run_steps(self._run.cancel_steps(), client.transport)
        except FirnError as error:
            self.log.warning("the run of the task could not be canceled: %s", describe(error, self.firn_conn_id))

    def _build_order(self, context: Context) -> RunOrder:
        instance = context["ti"]
        # Clearing a task sets its last try anew, and so begins new runs; a retry does not.
        last_before = max(0, (instance.max_tries or 0) - (self.retries or 0))
        place = (conf.get("api", "base_url", fallback="") or "", instance.dag_id, instance.run_id, instance.task_id)
        return RunOrder(
            pipeline=self.pipeline,
            tables=tuple(list_names(self.tables)),
            full=self.full,
            to=self.to.isoformat() if isinstance(self.to, datetime) else self.to or None,
            key=build_key(*place, str(instance.map_index), str(last_before)),
            attempt=max(1, instance.try_number - last_before),
            waits_for_approval=self.waits_for_approval,
            poll_seconds=self.poll_seconds,
            patience_seconds=self.patience_seconds,
        )

    def _finish(self, context: Context, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Tell Airflow what the runs did to each asset that the task updates."""
        facts = {full_name(part["table"]): part for run in runs for part in (run, *run["together"])}
        for outlet in self.outlets:
            asset = read_asset(outlet.uri) if isinstance(outlet, Asset) else None  # it may be an alias
            if asset is not None and asset[0] == self.catalog and asset[1] in facts:
                context["outlet_events"][outlet].extra = facts[asset[1]]
        for run in runs:
            self.log.info("%s: %s, %s rows written", run["table"], run["mode"], run["written"])
        return runs


def list_names(tables: str | Sequence[str]) -> list[str]:
    """The names of tables, of which there may be one."""
    return ([tables] if tables else []) if isinstance(tables, str) else list(tables)


def list_assets(tables: str | Sequence[str], catalog: str) -> list[Asset]:
    """The assets of tables whose names are known when the DAG is read: with a namespace, and no templates."""
    if not isinstance(tables, (str, list, tuple)):  # the result of another task
        return []
    return [table_asset(name, catalog=catalog) for name in list_names(tables) if "{" not in name and "." in name]
