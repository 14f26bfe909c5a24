"""The task of reading rows of tables by SQL for people, and the messages of the process that reads them."""

from __future__ import annotations

from firn.protocol.base import Message, Task

ANONYMOUS = "anonymous"
"""What `current_user` answers on a server without access control."""


class SampledFile(Message):
    """A data file whose first rows are read, as Parquet or ORC, with the values of its partition columns."""

    location: str
    format: str
    constants: dict[str, str | None] = {}


class FirstRows(Message):
    """The first rows of some files, in place of a table: files that cannot be read are left out."""

    files: list[SampledFile]
    rows: int
    """Most rows of a file."""
    result_bytes: int
    """Most bytes of the rows of a file, as they are in memory."""


class QueryTable(Message):
    """A table of a query, at one snapshot. `view` is its name in the statement; `name` is shown to people.

    With `first_rows` it has no metadata file, and its columns are exactly those of `columns`, and `firn.file`.
    """

    view: str
    name: str
    metadata: str
    snapshot_id: int | None
    columns: list[str] | None = None
    """Names in lower case that the statement may mean; None: all columns."""
    first_rows: FirstRows | None = None


class QueryLimits(Message):
    """The bounds of one query."""

    rows: int
    result_bytes: int
    memory_bytes: int
    threads: int
    files: int


class QueryTask(Task):
    """One SELECT in DuckDB's SQL over the views of the tables. With `explain`, the answer is its plan."""

    statement: str
    tables: list[QueryTable]
    limits: QueryLimits
    explain: bool = False
    export: bool = True
    """Whether the answer has the rows as a Parquet file, too."""
    file_io: dict[str, str] = {}
    user: str = ANONYMOUS
    """The name of the user who asks, for `current_user`."""


class QueryColumn(Message):
    """A column of a result, with its type in DuckDB's SQL."""

    name: str
    type: str


class QueryPage(Message):
    """Rows with their values as text."""

    rows: list[list[str | None]]


class QueryDone(Message):
    """The end of a result. `parquet` is a file in base64; None if the task does not ask for one."""

    rows: int
    truncated: bool
    parquet: str | None = None


class QueryRefusal(Message):
    """Why the query cannot be answered, and what to do."""

    message: str
    hint: str | None = None


class QueryMessage(Message):
    """One message of the process: a question, progress, a part of the result, or the end."""

    open: list[str] | None = None
    """Files that the process is to open if the server answers `true`; the table `view` names them."""
    view: str | None = None
    progress: float | None = None
    columns: list[QueryColumn] | None = None
    page: QueryPage | None = None
    done: QueryDone | None = None
    refused: QueryRefusal | None = None
    error: str | None = None
    """A failure that is none of the user's making."""
    gone: str | None = None
    """A file that does not exist any more."""
