"""Files of a table, opened with credentials that end: new ones are fetched before that, as Iceberg's Java clients do.

PyIceberg opens a file system once and keeps its credentials. A long job would lose access in the middle of its work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import httpx
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from optimizer.errors import JobError, Refused

log = logging.getLogger(__name__)

ENDS_AT = "s3.session-token-expires-at-ms"
_SHARE = 3
"""New credentials are fetched when the old ones have a third of their time left.

The server reuses credentials for half of their time, so it has newer ones by then. A file that is open keeps the
credentials with which it was opened, so it may be open for this third.
"""
_PAUSE = timedelta(seconds=10)
"""Between two requests for new credentials if the server does not answer."""

Renew = Callable[[], Mapping[str, str]]
"""Asks the server for new credentials, as PyIceberg's properties; without credentials, it gives none any more."""


def open_files(properties: Mapping[str, str], location: str, renew: Renew) -> FileIO:
    """Open files with these properties; with credentials that end, `renew` is called before they do."""
    if ENDS_AT in properties:
        return RenewingFileIO(dict(properties), renew)
    return load_file_io(dict(properties), location)


class RenewingFileIO(PyArrowFileIO):
    """Opens each file with credentials that are valid for a while. Threads may share it.

    httpx.HTTPError when the credentials have ended and the server does not answer, Refused when it gives no others.
    """

    def __init__(
        self, properties: Mapping[str, str], renew: Renew, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        super().__init__(dict(properties))
        self._request, self._clock, self._lock = renew, clock, threading.Lock()
        self._open_file_system = lru_cache(self._initialize_fs)
        self.fs_by_scheme = self._find_file_system
        self._take(properties)

    @property
    def has_ended(self) -> bool:
        """Whether the credentials have ended, and no others were fetched."""
        return self._clock() >= self._ends_at

    def _find_file_system(self, scheme: str, netloc: str | None) -> Any:
        with self._lock:
            if self._clock() >= self._renew_at:
                self._renew()
            return self._open_file_system(scheme, netloc)

    def _renew(self) -> None:
        try:
            fresh = self._request()
        except httpx.HTTPError as error:
            if self.has_ended:
                raise
            log.warning("the server gives no new credentials now: %s", error)
            self._renew_at = self._clock() + _PAUSE
            return
        if ENDS_AT not in fresh:
            raise Refused(f"{self._describe_end()}, and the catalog gives no others for this table")
        self._take(fresh)

    def _take(self, properties: Mapping[str, str]) -> None:
        now = self._clock()
        self.properties = {**self.properties, **properties}
        self._ends_at = datetime.fromtimestamp(int(properties[ENDS_AT]) / 1000, UTC)
        self._renew_at = self._ends_at - max(self._ends_at - now, timedelta()) / _SHARE
        self._open_file_system.cache_clear()

    def _describe_end(self) -> str:
        return f"the credentials of this job end at {self._ends_at:%Y-%m-%d %H:%M:%S} UTC"

    def explain(self) -> str:
        """Why files cannot be opened after the credentials have ended."""
        return (
            f"{self._describe_end()}, before the job had read and written all of its files; raise "
            "firn.storage.s3.session-seconds if this comes again"
        )


@contextmanager
def explain_ended_credentials(files: FileIO) -> Iterator[None]:
    """Raise Refused with the reason when something fails after the credentials have ended."""
    try:
        yield
    except (JobError, httpx.HTTPError):
        raise
    except Exception as error:
        if isinstance(files, RenewingFileIO) and files.has_ended:
            raise Refused(files.explain()) from error
        raise
