"""The sensor that waits for a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, conf

from firn.client import DEFAULT_CATALOG
from firn.errors import FirnError
from firn.integrations.airflow.hook import DEFAULT_CONNECTION, FirnHook, build_exception, describe, is_permanent
from firn.integrations.airflow.triggers import TableTrigger
from firn.integrations.drivers import run_steps
from firn.integrations.steps import PATIENCE_SECONDS
from firn.integrations.tables import TableCondition


class FirnTableSensor(BaseSensorOperator):
    """Waits until somebody has committed rows to a table, or until a pipeline has brought it up to its inputs.

    :param table: NAMESPACE.TABLE; it need not exist yet
    :param newer_than: a time with its zone, after which the rows have to be committed
    :param fresh_within: the age that the newest commit may have
    :param pipeline: the pipeline that computes the table. The sensor then waits until the table shows all commits to
        its inputs up to `newer_than`, or all that are older than `fresh_within`
    :param catalog: the catalog of the table
    :param patience_seconds: how long the server may be away before the task fails
    """

    template_fields: Sequence[str] = ("table", "newer_than", "pipeline")
    ui_color = "#e8f3da"

    def __init__(
        self,
        *,
        table: str,
        newer_than: str | datetime | None = None,
        fresh_within: timedelta | None = None,
        pipeline: str | None = None,
        catalog: str = DEFAULT_CATALOG,
        firn_conn_id: str = DEFAULT_CONNECTION,
        patience_seconds: float = PATIENCE_SECONDS,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.table = table
        self.newer_than = newer_than
        self.fresh_within = fresh_within
        self.pipeline = pipeline
        self.catalog = catalog
        self.firn_conn_id = firn_conn_id
        self.patience_seconds = patience_seconds
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look at the table; if it has to be waited for, and `deferrable` is set, the triggerer does it."""
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if isinstance(result, PokeReturnValue):
            return result.xcom_value
        trigger = TableTrigger(
            firn_conn_id=self.firn_conn_id, poll_seconds=self.poke_interval, **self._build_condition()
        )
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        return None

    def poke(self, context: Context) -> bool | PokeReturnValue:  # noqa: ARG002 -- Airflow's signature
        """Look at the table once."""
        try:
            condition = TableCondition.read(self._build_condition())
            with FirnHook(self.firn_conn_id).get_conn() as client:
                facts = run_steps(condition.steps(), client.transport)
        except FirnError as error:
            message = describe(error, self.firn_conn_id)
            raise build_exception(message, permanent=is_permanent(error)) from error
        return False if facts is None else PokeReturnValue(is_done=True, xcom_value=facts)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:  # noqa: ARG002 -- Airflow's signature
        """Go on after the triggerer has seen the table."""
        if event["status"] != "success":
            raise build_exception(str(event["message"]), permanent=bool(event["permanent"]))
        return event["facts"]

    def _build_condition(self) -> dict[str, Any]:
        since = self.newer_than
        return {
            "catalog": self.catalog,
            "table": self.table,
            "newer_than": since.isoformat() if isinstance(since, datetime) else since or None,
            "fresh_within_seconds": None if self.fresh_within is None else self.fresh_within.total_seconds(),
            "pipeline": self.pipeline or None,
            "patience_seconds": self.patience_seconds,
        }
