"""The session that Python of a pipeline sees: its tables are those of the run, at the run's pins.

`SparkSession.active()` gives it, in the thread that runs the code. Reads of anything else are errors with a remedy: the
run would not notice their changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from firn.errors import Invalid
from firn.names import split_name
from firn.pipelines.forbidden import refuse_forbidden
from firn.pipelines.parsing import DIALECT, parse_query
from firn.pipelines.tables import find_tables, rename_tables

FindTable = Callable[[Sequence[str]], DataFrame]
"""The rows of a table or view by the parts of its name. Raises Invalid for one that the run does not have."""
_CURRENT: ContextVar[SparkSession | None] = ContextVar("firn_pinned_session", default=None)
_ELSEWHERE = "read tables of the pipeline's catalog by spark.table or spark.sql"


class PinnedSession(SparkSession):
    """A view of a session that has other tables."""

    _find: FindTable

    @classmethod
    def of(cls, session: SparkSession, find: FindTable) -> PinnedSession:
        """The session with these tables. It is no second session in Java."""
        pinned = cls.__new__(cls)
        pinned.__dict__.update(session.__dict__)
        pinned._find = find  # noqa: SLF001 -- its own class
        return pinned

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 -- PySpark's own name
        """The rows of a table, or of a temporary view of the pipeline."""
        return self._find(split_name(tableName))

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 -- PySpark's own name
        """The rows of a query over such tables."""
        if kwargs:
            raise Invalid("spark.sql takes no names in braces here", hint="write :name, and args={...}")
        query = parse_query(sqlQuery)
        refuse_forbidden(query)
        names = {tuple(part.name for part in table.parts) for table in find_tables(query)}
        frames = {".".join(parts): self._find(parts) for parts in names}
        for name, prefix in rename_tables(query).items():
            frames[".".join(split_name(name))].createOrReplaceTempView(f"`{prefix}`")
        return super().sql(str(query.sql(DIALECT)), args)

    @property
    def read(self) -> Any:
        """A reader of tables alone."""
        return _TableReader(self)

    @property
    def readStream(self) -> Any:  # noqa: N802 -- PySpark's own name
        """Refused: Firn gives streams to SQL."""
        raise Invalid(
            "Python reads no streams in Firn",
            hint="write CREATE STREAMING TABLE in SQL, or read the table by spark.table",
        )

    def newSession(self) -> SparkSession:  # noqa: N802 -- PySpark's own name
        """Refused: it would have other tables."""
        raise Invalid("a function of a pipeline has one session", hint=_ELSEWHERE)

    def stop(self) -> None:
        """Refused: other jobs run in the same Spark."""
        raise Invalid("a function of a pipeline must not stop Spark", hint="remove spark.stop()")


class _TableReader:
    """`spark.read`, as far as tables go."""

    def __init__(self, session: PinnedSession) -> None:
        self._session = session

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 -- PySpark's own name
        return self._session.table(tableName)

    def format(self, source: str) -> _TableReader:
        """Ignored: a table knows its format."""
        _ = source
        return self

    def __getattr__(self, name: str) -> NoReturn:
        raise Invalid(f"spark.read.{name} does not read a table of the run", hint=f"{_ELSEWHERE}; load files into one")


@contextmanager
def use_session(session: SparkSession) -> Iterator[None]:
    """Let the code of this thread find the session by `SparkSession.active()` and `builder.getOrCreate()`."""
    _patch()
    token = _CURRENT.set(session)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _patch() -> None:
    """PySpark asks Java for the active session; only Python knows the pinned one. Other threads notice nothing."""
    if getattr(SparkSession, "_firn_patched", False):
        return
    find, create = SparkSession.getActiveSession.__func__, SparkSession.Builder.getOrCreate  # type: ignore[attr-defined]

    def get_active(cls: type[SparkSession]) -> SparkSession | None:
        session: SparkSession | None = _CURRENT.get() or find(cls)
        return session

    def get_or_create(builder: Any) -> SparkSession:
        return _CURRENT.get() or create(builder)

    SparkSession.getActiveSession = classmethod(get_active)  # type: ignore[assignment,method-assign]
    SparkSession.Builder.getOrCreate = get_or_create  # type: ignore[assignment,method-assign]
    SparkSession._firn_patched = True  # type: ignore[attr-defined]  # noqa: SLF001 -- to do it once
