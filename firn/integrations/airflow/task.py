"""What the operators that wait for a server have in common: a worker waits, or Airflow's triggerer does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from airflow.sdk import Asset, BaseOperator, Context, conf

from firn.errors import FirnError
from firn.integrations.airflow.assets import read_asset
from firn.integrations.airflow.hook import FirnHook, build_exception, describe, is_permanent
from firn.integrations.airflow.triggers import WorkTrigger
from firn.integrations.drivers import run_steps
from firn.integrations.runs import build_key
from firn.integrations.tables import full_name

_CANCEL_SECONDS = 120
"""How much longer than the task's time Airflow waits for the trigger, which cancels the work at its end."""


class FirnTask(BaseOperator):
    """A task that requests something of a server, waits for its end, and cancels it if the task is killed."""

    trigger_class: ClassVar[type[WorkTrigger]]

    def __init__(self, *, catalog: str, firn_conn_id: str, deferrable: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.catalog = catalog
        self.firn_conn_id = firn_conn_id
        self.deferrable = deferrable
        self._trigger: WorkTrigger | None = None

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Do the work, or have the triggerer do it."""
        try:
            order = asdict(self._build_order(context))
        except FirnError as error:
            raise build_exception(describe(error, self.firn_conn_id), permanent=True) from error
        if self.deferrable:
            limit: timedelta | None = self.execution_timeout
            ends_at = None if limit is None else (datetime.now(UTC) + limit).isoformat()
            trigger = self.trigger_class(firn_conn_id=self.firn_conn_id, order=order, ends_at=ends_at)
            wait = None if limit is None else limit + timedelta(seconds=_CANCEL_SECONDS)
            self.defer(trigger=trigger, method_name="execute_complete", timeout=wait)
        self._trigger = self.trigger_class(firn_conn_id=self.firn_conn_id, order=order)
        try:
            with FirnHook(self.firn_conn_id).get_conn() as client:
                results = run_steps(self._trigger.work.steps(), client.transport)
        except FirnError as error:
            message = describe(error, self.firn_conn_id)
            raise build_exception(message, permanent=is_permanent(error)) from error
        return self._finish(context, self._trigger.summarize(results))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Go on after the triggerer has seen the end of the work."""
        if event["status"] != "success":
            raise build_exception(str(event["message"]), permanent=bool(event["permanent"]))
        return self._finish(context, event["runs"])

    def on_kill(self) -> None:
        """Cancel what is active: the task is stopped, or its time is over."""
        if self._trigger is None:
            return
        try:
            with FirnHook(self.firn_conn_id).get_conn() as client:
                run_steps(self._trigger.work.cancel_steps(), client.transport)
        except FirnError as error:
            message = describe(error, self.firn_conn_id)
            self.log.warning("what the task has started could not be canceled: %s", message)

    def _build_order(self, context: Context) -> Any:
        """The order, a dataclass. Raises Invalid for arguments of the task that are wrong."""
        raise NotImplementedError

    def _build_attempt(self, context: Context) -> dict[str, Any]:
        """The key and the number of the attempt that orders have."""
        instance = context["ti"]
        # Clearing a task sets its last try anew, and so begins new work; a retry does not.
        last_before = max(0, (instance.max_tries or 0) - (self.retries or 0))
        place = (conf.get("api", "base_url", fallback="") or "", instance.dag_id, instance.run_id, instance.task_id)
        return {
            "key": build_key(*place, str(instance.map_index), str(last_before)),
            "attempt": max(1, instance.try_number - last_before),
        }

    def _finish(self, context: Context, summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Tell Airflow what was done to each asset that the task updates."""
        facts = {full_name(part["table"]): part for entry in summaries for part in (entry, *entry.get("together", ()))}
        for outlet in self.outlets:
            asset = read_asset(outlet.uri) if isinstance(outlet, Asset) else None  # it may be an alias
            if asset is not None and asset[0] == self.catalog and asset[1] in facts:
                context["outlet_events"][outlet].extra = facts[asset[1]]
        for entry in summaries:
            self._log_summary(entry)
        return summaries

    def _log_summary(self, summary: Mapping[str, Any]) -> None:
        raise NotImplementedError


def list_names(tables: str | Sequence[str]) -> list[str]:
    """The names of tables, of which there may be one."""
    return ([tables] if tables else []) if isinstance(tables, str) else list(tables)
