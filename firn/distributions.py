"""How the values of a column are distributed: `client.tables["db.orders"].distribution("amount")`."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

from firn.errors import FirnError
from firn.protocol.answers.distributions import ColumnDistributionOut, DistributionOut
from firn.protocol.queries import QueryState
from firn.queries import QueryFailed
from firn.transport import Transport

_WAIT_SECONDS = 10


def count_column(transport: Transport, path: str, column: str) -> ColumnDistributionOut:
    """Let the server count a column, and wait for the result. An interruption cancels it.

    `path` is that of the table's distributions. QueryFailed says why there is no result.
    """
    answer = DistributionOut.read(transport.change("POST", path, {"column": column, "wait": _WAIT_SECONDS}))
    query_id = quote(str(answer.query.id))
    try:
        while answer.query.state.is_active:
            answer = DistributionOut.read(transport.get(f"{path}/{query_id}", {"wait": _WAIT_SECONDS}))
    except KeyboardInterrupt:
        with suppress(FirnError):
            transport.change("DELETE", f"/queries/{query_id}")
        raise
    if answer.query.state is not QueryState.DONE or answer.distribution is None:
        raise QueryFailed(answer.query.message or f"the query is {answer.query.state}", hint=answer.query.hint)
    return answer.distribution
