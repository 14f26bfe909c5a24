"""Cache of gzip-compressed answers, because clients load metadata far more often than it changes."""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass, field
from typing import Annotated

from cachetools import LRUCache
from fastapi import Depends, Request, Response

CACHE_BYTES = 16 * 1024 * 1024
"""About 160 MiB of metadata. Each commit makes a new answer, so streams fill the cache whatever its size is."""
WORTH_BYTES = 32 * 1024
"""Smaller answers need few packets without compression."""
_LEVEL = 1  # compresses to a tenth; higher levels take several times as long for little gain
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Compressed:
    """Recently compressed answers by ETag."""

    _cache: LRUCache[str, bytes] = field(default_factory=lambda: LRUCache(CACHE_BYTES, getsizeof=len))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, response: Response) -> Response:
        """Compress a response if it is large and has an ETag."""
        content, etag = bytes(response.body), response.headers.get("etag")
        if len(content) < WORTH_BYTES or etag is None:
            return response
        with self._lock:
            smaller = self._cache.get(etag)
        if smaller is None:
            packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
            smaller = packer.compress(content) + packer.flush()
            with self._lock:
                if len(smaller) <= CACHE_BYTES:
                    self._cache[etag] = smaller
        headers = {"ETag": etag, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(smaller, response.status_code, headers=headers, media_type="application/json")


async def takes_gzip(request: Request) -> bool:
    """Whether the client accepts gzip, as a dependency of routes with large answers."""
    return accepts_gzip(request)


def accepts_gzip(request: Request) -> bool:
    """Whether the client accepts gzip (RFC 9110, section 12.5.3), ignoring its preference among codings."""
    for entry in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = entry.strip().partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "").rstrip("0") not in ("q=", "q=0.")
    return False


TakesGzipDep = Annotated[bool, Depends(takes_gzip)]
