"""The operators that run tables of a pipeline, and compute some of their rows again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from airflow.sdk import Asset, Context, conf

from firn.client import DEFAULT_CATALOG
from firn.integrations.airflow.assets import table_asset
from firn.integrations.airflow.hook import DEFAULT_CONNECTION
from firn.integrations.airflow.task import FirnTask, list_names
from firn.integrations.airflow.triggers import BackfillTrigger, PipelineRunTrigger
from firn.integrations.backfills import BackfillOrder, build_where
from firn.integrations.runs import POLL_SECONDS, RunOrder
from firn.integrations.steps import PATIENCE_SECONDS
from firn.protocol.backfills import CHUNK_SECONDS


class FirnPipelineOperator(FirnTask):
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
    trigger_class = PipelineRunTrigger

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
        super().__init__(catalog=catalog, firn_conn_id=firn_conn_id, deferrable=deferrable, **arguments)
        self.pipeline = pipeline
        self.tables = tables
        self.full = full
        self.to = to
        self.waits_for_approval = waits_for_approval
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds

    def _build_order(self, context: Context) -> RunOrder:
        return RunOrder(
            pipeline=self.pipeline,
            tables=tuple(list_names(self.tables)),
            full=self.full,
            to=self.to.isoformat() if isinstance(self.to, datetime) else self.to or None,
            waits_for_approval=self.waits_for_approval,
            poll_seconds=self.poll_seconds,
            patience_seconds=self.patience_seconds,
            **self._build_attempt(context),
        )

    def _log_summary(self, summary: Mapping[str, Any]) -> None:
        self.log.info("%s: %s, %s rows written", summary["table"], summary["mode"], summary["written"])


class FirnBackfillOperator(FirnTask):
    """Computes some rows of a pipeline's table again, such as those of a range of days, and waits for it.

    The result has the number of chunks, and the time. With `deferrable` no worker waits. The task's retry takes over
    the backfill of its last attempt, and resumes it if it has failed. Killing the task cancels the backfill.

    :param pipeline: the name of the pipeline
    :param table: NAMESPACE.TABLE
    :param where: a condition in Spark's SQL over columns of the table's scope; or:
    :param column: a column of days, for the days from `start` on
    :param start: the first day
    :param end: the day after the last one
    :param chunks: the number of chunks
    :param chunk_seconds: about how long a run may compute chunks
    :param beside: so many jobs compute the chunks beside the live runs
    :param catalog: the catalog of the pipeline's table, for its asset
    :param patience_seconds: how long the server may be away before the task fails
    """

    template_fields: Sequence[str] = ("pipeline", "table", "where", "column", "start", "end")
    ui_color = "#d7e9f5"
    trigger_class = BackfillTrigger

    def __init__(
        self,
        *,
        pipeline: str,
        table: str,
        where: str | None = None,
        column: str | None = None,
        start: str | date | None = None,
        end: str | date | None = None,
        chunks: int | None = None,
        chunk_seconds: int = CHUNK_SECONDS,
        beside: int | None = None,
        catalog: str = DEFAULT_CATALOG,
        firn_conn_id: str = DEFAULT_CONNECTION,
        poll_seconds: float = POLL_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **arguments: Any,
    ) -> None:
        arguments.setdefault("outlets", list_assets(table, catalog))
        super().__init__(catalog=catalog, firn_conn_id=firn_conn_id, deferrable=deferrable, **arguments)
        self.pipeline = pipeline
        self.table = table
        self.where = where
        self.column = column
        self.start = start
        self.end = end
        self.chunks = chunks
        self.chunk_seconds = chunk_seconds
        self.beside = beside
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds

    def _build_order(self, context: Context) -> BackfillOrder:
        return BackfillOrder(
            pipeline=self.pipeline,
            table=self.table,
            where=build_where(self.where, self.column, self.start, self.end),
            chunks=self.chunks,
            chunk_seconds=self.chunk_seconds,
            beside=self.beside,
            poll_seconds=self.poll_seconds,
            patience_seconds=self.patience_seconds,
            **self._build_attempt(context),
        )

    def _log_summary(self, summary: Mapping[str, Any]) -> None:
        self.log.info("%s: backfill %s, %s chunks", summary["table"], summary["backfill_id"], summary["chunks"])


def list_assets(tables: str | Sequence[str], catalog: str) -> list[Asset]:
    """The assets of tables whose names are known when the DAG is read: with a namespace, and no templates."""
    if not isinstance(tables, (str, list, tuple)):  # the result of another task
        return []
    return [table_asset(name, catalog=catalog) for name in list_names(tables) if "{" not in name and "." in name]
