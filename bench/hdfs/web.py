"""WebHDFS: what a server without a client of HDFS's own protocol would call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar
from urllib.parse import urlsplit

import httpx

from bench.hdfs.stage import Sides
from server.files.storage import Storage

T = TypeVar("T")

THREADS = 16
_SECONDS = 120


class WebHdfs:
    """The name node's HTTP interface. It keeps its connections, and calls side by side like Firn does."""

    def __init__(self, ends: ExitStack, sides: Sides) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=4 * THREADS)
        client = httpx.Client(timeout=_SECONDS, limits=limits, follow_redirects=True, trust_env=False)
        self._client = ends.enter_context(client)
        self._top = f"http://{sides.web_address}/webhdfs/v1"

    def ask(self, location: str, operation: str, **parameters: int) -> httpx.Response:
        """One request; httpx.HTTPStatusError if it is refused."""
        named: dict[str, str | int] = {"op": operation, **parameters}
        return self._client.get(f"{self._top}{urlsplit(location).path}", params=named).raise_for_status()

    def list_all(self, locations: Sequence[str]) -> list[object]:
        """The entries of directories, each with its size and time."""
        return self._map(lambda top: self.ask(top, "LISTSTATUS").json()["FileStatuses"]["FileStatus"], locations)

    def times(self, locations: Sequence[str]) -> list[int]:
        """When directories changed last."""
        return self._map(lambda top: self._status(top)["modificationTime"], locations)

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        """The last bytes of a file, and its size. A data node sends them, to which the name node refers."""
        size = self._status(location)["length"]
        return self.ask(location, "OPEN", offset=max(0, size - length)).content, size

    def _status(self, location: str) -> dict[str, int]:
        status: dict[str, int] = self.ask(location, "GETFILESTATUS").json()["FileStatus"]
        return status

    def _map(self, call: Callable[[str], T], locations: Sequence[str]) -> list[T]:
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(call, locations))


class WebStorage(Storage):
    """Reads footers by WebHDFS."""

    def __init__(self, web: WebHdfs) -> None:
        super().__init__()
        self._web = web

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        return self._web.tail(location, length)
