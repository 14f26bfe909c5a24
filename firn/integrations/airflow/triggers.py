"""What waits in Airflow's triggerer: for runs of a pipeline, and for a table. Neither blocks its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from firn.errors import FirnError
from firn.integrations.airflow.hook import build_async_server, describe, is_permanent
from firn.integrations.drivers import run_steps_async
from firn.integrations.runs import PipelineRun, RunOrder, summarize_run
from firn.integrations.steps import PATIENCE_SECONDS
from firn.integrations.tables import TableCondition


def build_failure(error: FirnError, connection_id: str) -> TriggerEvent:
    """The event that fails the task."""
    message = describe(error, connection_id)
    return TriggerEvent({"status": "failed", "message": message, "permanent": is_permanent(error)})


class PipelineRunTrigger(BaseTrigger):
    """Starts the runs of an order, waits for them, and cancels them if a user kills the task or its time is over.

    It may be started again at any point, also by another triggerer: the order's key leads to the same runs.
    """

    def __init__(self, *, firn_conn_id: str, order: dict[str, Any], ends_at: str | None = None) -> None:
        super().__init__()
        self.firn_conn_id = firn_conn_id
        self.order = {**order, "tables": list(order["tables"])}
        self.ends_at = ends_at
        self._run = PipelineRun(RunOrder(**{**order, "tables": tuple(order["tables"])}))

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, as Airflow stores them."""
        arguments = {"firn_conn_id": self.firn_conn_id, "order": self.order, "ends_at": self.ends_at}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, when all runs have ended or one has failed."""
        server = build_async_server(self.firn_conn_id)
        try:
            async with asyncio.timeout(self._count_seconds()):
                runs = await run_steps_async(self._run.steps(), server)
            event = TriggerEvent({"status": "success", "runs": [summarize_run(run) for run in runs]})
        except TimeoutError:
            await self.on_kill()
            message = "the runs have not ended within the task's execution_timeout, and are canceled"
            event = TriggerEvent({"status": "failed", "message": message, "permanent": False})
        except FirnError as error:
            event = build_failure(error, self.firn_conn_id)
        finally:
            await server.close()
        yield event

    async def on_kill(self) -> None:
        """Cancel what this trigger has started: a user has cleared the task, or marked it."""
        server = build_async_server(self.firn_conn_id)
        try:
            await run_steps_async(self._run.cancel_steps(), server)
        except FirnError as error:
            self.log.warning("the run of the task could not be canceled: %s", describe(error, self.firn_conn_id))
        finally:
            await server.close()

    def _count_seconds(self) -> float | None:
        if self.ends_at is None:
            return None
        return max(0.0, (datetime.fromisoformat(self.ends_at) - datetime.now(UTC)).total_seconds())


class TableTrigger(BaseTrigger):
    """Waits until a table satisfies a condition."""

    def __init__(
        self,
        *,
        firn_conn_id: str,
        catalog: str,
        table: str,
        newer_than: str | None = None,
        fresh_within_seconds: float | None = None,
        pipeline: str | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        poll_seconds: float = 60.0,
    ) -> None:
        super().__init__()
        self.firn_conn_id = firn_conn_id
        self.poll_seconds = poll_seconds
        self.condition = {
            "catalog": catalog,
            "table": table,
            "newer_than": newer_than,
            "fresh_within_seconds": fresh_within_seconds,
            "pipeline": pipeline,
            "patience_seconds": patience_seconds,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, as Airflow stores them."""
        arguments = {"firn_conn_id": self.firn_conn_id, "poll_seconds": self.poll_seconds, **self.condition}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, when the table satisfies the condition or nobody can tell."""
        server = build_async_server(self.firn_conn_id)
        try:
            condition = TableCondition.read(self.condition)
            facts = await run_steps_async(condition.wait_steps(self.poll_seconds), server)
            event = TriggerEvent({"status": "success", "facts": facts})
        except FirnError as error:
            event = build_failure(error, self.firn_conn_id)
        finally:
            await server.close()
        yield event
