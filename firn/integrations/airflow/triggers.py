"""What waits in Airflow's triggerer: for runs, backfills and tables. Nothing here blocks its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from airflow.triggers.base import BaseTrigger, TriggerEvent

from firn.errors import FirnError
from firn.integrations.airflow.hook import build_async_server, describe, is_permanent
from firn.integrations.backfills import BackfillOrder, TableBackfill, summarize_backfill
from firn.integrations.drivers import run_steps_async
from firn.integrations.runs import PipelineRun, RunOrder, summarize_run
from firn.integrations.steps import PATIENCE_SECONDS, Steps
from firn.integrations.tables import TableCondition


class Work(Protocol):
    """What an order wants of the server."""

    def steps(self) -> Steps[list[Any]]:
        """Start it, and wait for its end."""

    def cancel_steps(self) -> Steps[None]:
        """Cancel what is active."""


def build_failure(error: FirnError, connection_id: str) -> TriggerEvent:
    """The event that fails the task."""
    message = describe(error, connection_id)
    return TriggerEvent({"status": "failed", "message": message, "permanent": is_permanent(error)})


class WorkTrigger(BaseTrigger):
    """Does the work of an order, waits for it, and cancels it if a user kills the task or its time is over.

    It may be started again at any point, also by another triggerer: the order's key leads to the same work.
    """

    def __init__(self, *, firn_conn_id: str, order: dict[str, Any], ends_at: str | None = None) -> None:
        super().__init__()
        self.firn_conn_id = firn_conn_id
        self.order = self.build_document(order)
        self.ends_at = ends_at
        self.work = self.build_work(order)

    def build_document(self, order: dict[str, Any]) -> dict[str, Any]:
        """The order as JSON."""
        return order

    def build_work(self, order: dict[str, Any]) -> Work:
        """What the order wants."""
        raise NotImplementedError

    def summarize(self, results: Sequence[Any]) -> list[dict[str, Any]]:
        """The facts of the work that the task keeps, as JSON."""
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, as Airflow stores them."""
        arguments = {"firn_conn_id": self.firn_conn_id, "order": self.order, "ends_at": self.ends_at}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, when the work has ended or failed."""
        server = build_async_server(self.firn_conn_id)
        try:
            async with asyncio.timeout(self._count_seconds()):
                results = await run_steps_async(self.work.steps(), server)
            event = TriggerEvent({"status": "success", "runs": self.summarize(results)})
        except TimeoutError:
            await self.on_kill()
            message = "the task has not ended within its execution_timeout, and what it has started is canceled"
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
            await run_steps_async(self.work.cancel_steps(), server)
        except FirnError as error:
            message = describe(error, self.firn_conn_id)
            self.log.warning("what the task has started could not be canceled: %s", message)
        finally:
            await server.close()

    def _count_seconds(self) -> float | None:
        if self.ends_at is None:
            return None
        return max(0.0, (datetime.fromisoformat(self.ends_at) - datetime.now(UTC)).total_seconds())


class PipelineRunTrigger(WorkTrigger):
    """Starts the runs of an order, and waits for them."""

    def build_document(self, order: dict[str, Any]) -> dict[str, Any]:
        """The order as JSON, which has no tuples."""
        return {**order, "tables": list(order["tables"])}

    def build_work(self, order: dict[str, Any]) -> PipelineRun:
        """The runs."""
        return PipelineRun(RunOrder(**{**order, "tables": tuple(order["tables"])}))

    def summarize(self, results: Sequence[Any]) -> list[dict[str, Any]]:
        """The facts of each run."""
        return [summarize_run(run) for run in results]


class BackfillTrigger(WorkTrigger):
    """Requests the backfill of an order, and waits for it."""

    def build_work(self, order: dict[str, Any]) -> TableBackfill:
        """The backfill."""
        return TableBackfill(BackfillOrder(**order))

    def summarize(self, results: Sequence[Any]) -> list[dict[str, Any]]:
        """The facts of the backfill."""
        return [summarize_backfill(backfill) for backfill in results]


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
