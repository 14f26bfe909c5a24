"""Helpers for PySpark: sessions with the jars and catalogs that they need, upserts and reads.

    spark = firn.spark.session("http://127.0.0.1:8630", app="load orders")
    firn.spark.upsert(df, "lake.db.orders", batch="2026-11-21T10")
    firn.spark.read("lake.db.orders").show()

PySpark is an extra, and only this package needs it. So these names load their modules on first use, and a fetch of jars
does not wait for the import of PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.drains.drain import Drained
    from firn.drains.errors import DrainStopped
    from firn.spark.cdc_run import CdcRun as CdcRun
    from firn.spark.changes import on_changes, read_changes
    from firn.spark.errors import CommitRefused, NotKeyed, NotPublished, RowsRefused, WriteError, WriteUnknown, reason
    from firn.spark.local_code import compute_by_code as compute_by_code
    from firn.spark.local_pipeline import LocalPipeline as LocalPipeline
    from firn.spark.log_drain import drain, skip
    from firn.spark.log_reading import read_log
    from firn.spark.lookup import enrich
    from firn.spark.pipeline_tests import run_case as run_case
    from firn.spark.pipeline_tests import run_random as run_random
    from firn.spark.quarantine_retry import Retried, retry_quarantine
    from firn.spark.reading import read
    from firn.spark.real_time import realtime
    from firn.spark.sessions import catalog_conf, configure, session, sql
    from firn.spark.sinks import append_sink, resume, upsert_sink, write_stream
    from firn.spark.statements import sync_before_statement
    from firn.spark.table_comparison import ComparisonOptions as ComparisonOptions
    from firn.spark.table_comparison import compare_tables as compare_tables
    from firn.spark.table_comparison import compute_table as compute_table
    from firn.spark.write import Written, delete, upsert, write_changes

__all__ = [
    "CommitRefused",
    "DrainStopped",
    "Drained",
    "NotKeyed",
    "NotPublished",
    "Retried",
    "RowsRefused",
    "WriteError",
    "WriteUnknown",
    "Written",
    "append_sink",
    "catalog_conf",
    "configure",
    "delete",
    "drain",
    "enrich",
    "on_changes",
    "read",
    "read_changes",
    "read_log",
    "realtime",
    "reason",
    "resume",
    "retry_quarantine",
    "session",
    "skip",
    "sql",
    "sync_before_statement",
    "upsert",
    "upsert_sink",
    "write_changes",
    "write_stream",
]

_HOMES = {
    "firn.drains.drain": ("Drained",),
    "firn.drains.errors": ("DrainStopped",),
    "firn.spark.log_drain": ("drain", "skip"),
    "firn.spark.errors": (
        "CommitRefused",
        "NotKeyed",
        "NotPublished",
        "RowsRefused",
        "WriteError",
        "WriteUnknown",
        "reason",
    ),
    "firn.spark.changes": ("on_changes", "read_changes"),
    "firn.spark.log_reading": ("read_log",),
    "firn.spark.lookup": ("enrich",),
    "firn.spark.real_time": ("realtime",),
    "firn.spark.quarantine_retry": ("Retried", "retry_quarantine"),
    "firn.spark.reading": ("read",),
    "firn.spark.sessions": ("catalog_conf", "configure", "session", "sql"),
    "firn.spark.sinks": ("append_sink", "resume", "upsert_sink", "write_stream"),
    "firn.spark.statements": ("sync_before_statement",),
    "firn.spark.write": ("Written", "delete", "upsert", "write_changes"),
    # For the command line:
    "firn.spark.cdc_run": ("CdcRun",),
    "firn.spark.local_code": ("compute_by_code",),
    "firn.spark.local_pipeline": ("LocalPipeline",),
    "firn.spark.pipeline_tests": ("run_case", "run_random"),
    "firn.spark.table_comparison": ("ComparisonOptions", "compare_tables", "compute_table"),
}


def __getattr__(name: str) -> object:
    """Load one of the names above from its module."""
    return load_name(__name__, _HOMES, name)
