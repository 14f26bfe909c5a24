"""Why a query failed, for the person who asked: one message, and what helps."""

from __future__ import annotations

import logging
import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from firn.errors import FirnError
from firn.protocol.query_leases import LONGEST_MESSAGE, QueryLease, QueryReport, QueryReportOutcome
from firn.spark.errors import java_causes, reason
from optimizer.errors import JobError
from optimizer.failures import IS_OUT_OF_MEMORY
from optimizer.queries.results import hide_paths
from optimizer.spark import OUT_OF_MEMORY_STATUS

log = logging.getLogger(__name__)

_IS_TOO_LARGE_TO_BROADCAST = re.compile(r"_LEGACY_ERROR_TEMP_2250")
_IS_TOO_LARGE = re.compile(r"Total size of serialized results .* is bigger than spark\.driver\.maxResultSize")
_SMALLER = "Read fewer rows or columns, or aggregate in steps. An operator can give optimizers for queries more memory."


def explain_failure(error: Exception, lease: QueryLease) -> QueryReport:
    """The report of a query that failed while its Spark lives."""
    if isinstance(error, FirnError):
        return _fail(error.message, error.hint)
    if isinstance(error, PySparkException | Py4JError):
        texts = [str(error), *(f"{name}: {message}" for name, message in java_causes(error))]
        if any(_IS_TOO_LARGE.search(text) for text in texts):
            return _fail("the result does not fit into the memory of the optimizer", _SMALLER)
        if any(IS_OUT_OF_MEMORY.search(text) or _IS_TOO_LARGE_TO_BROADCAST.search(text) for text in texts):
            return _fail("the query needs more memory than the optimizer has", _SMALLER)
        return _fail(reason(error), None)
    if isinstance(error, JobError):
        return _fail(str(error), None)
    log.error("query %s failed", lease.query_id, exc_info=error)
    return _fail("the query failed; the optimizer's log says why", None)


def explain_end_of_java(status: int | None) -> QueryReport:
    """The report of a query that ran when Java ended, by whatever query or job."""
    if status == OUT_OF_MEMORY_STATUS:
        return _fail("the optimizer ran out of memory while the query ran, and ended", _SMALLER)
    return _fail(
        "the optimizer's Spark ended while the query ran",
        f"It may have needed more memory than the optimizer has. {_SMALLER}",
    )


def _fail(message: str, hint: str | None) -> QueryReport:
    return QueryReport(outcome=QueryReportOutcome.FAILED, message=hide_paths(message)[:LONGEST_MESSAGE], hint=hint)
