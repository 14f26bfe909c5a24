"""`python -m optimizer.queries`: answers SQL over tables, until its input ends.

One task runs at a time. Each line of the input is a task, or the answer to a question; each line of the output is a
QueryMessage. The server kills the process to cancel a query, so nothing here has to be saved.
"""

from __future__ import annotations

from firn import garbage_collection  # first: it makes the other imports faster

# isort: split
import resource
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from firn.errors import FirnError
from firn.protocol.tasks.query import QueryMessage, QueryRefusal, QueryTask
from optimizer.queries.execution import run_query
from optimizer.queries.results import Say
from optimizer.queries.tables import Check

garbage_collection.resume()

OWN_BYTES = 2**30
"""Memory beside DuckDB's limit: libraries, files that PyIceberg reads, and the result."""


class Forbidden(Exception):
    """The server does not let the process open a file; it knows which and why."""


def serve(lines: TextIO, out: TextIO) -> None:
    """Answer tasks until the input ends, or until one of them has left much memory behind."""
    lock = threading.Lock()

    def say(message: QueryMessage) -> None:
        with lock:
            out.write(message.model_dump_json(exclude_unset=True) + "\n")
            out.flush()

    def check(view: str, files: Sequence[str]) -> None:
        if files:
            say(QueryMessage(open=list(files), view=view))
            if lines.readline().strip() != "true":
                raise Forbidden

    at_start = read_data_bytes()
    for line in lines:
        task = QueryTask.model_validate_json(line)
        most = task.limits.memory_bytes + OWN_BYTES
        limit_memory(at_start + most)
        failure = _run(task, check, say)
        if failure is not None:
            say(failure)
        if read_data_bytes() > at_start + most // 2:
            return  # what is left would not do for the next task; the server starts a new process


def _run(task: QueryTask, check: Check, say: Say) -> QueryMessage | None:
    """Answer a task; returns the last message if it fails."""
    try:
        run_query(task, check, say)
    except FileNotFoundError as error:
        return QueryMessage(gone=str(error.filename or error))
    except Forbidden:
        return QueryMessage(error="refused")
    except FirnError as error:
        return QueryMessage(refused=QueryRefusal(message=error.message, hint=error.hint))
    except MemoryError:
        return QueryMessage(refused=QueryRefusal(message="the query needs more memory than the server allows"))
    except Exception as error:  # noqa: BLE001 -- whatever a file holds, the next task is another's
        return QueryMessage(error=f"{type(error).__name__}: {error}")
    return None


def limit_memory(most: int) -> None:
    """Let the system refuse more memory: not all of DuckDB's functions count theirs."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def read_data_bytes() -> int:
    """The memory that counts for the limit; libraries reserve a gigabyte that they never use."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:  # a system without /proc
        return 0


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
