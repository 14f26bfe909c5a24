"""Large answers for clients that take gzip, compressed once: metadata are loaded far more often than they change."""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass, field
from typing import Annotated

from cachetools import LRUCache
from fastapi import Depends, Request, Response

CACHE_BYTES = 64 * 1024 * 1024
WORTH_BYTES = 32 * 1024
"""Smaller answers fit into few packets either way."""
_LEVEL = 1  # a tenth of the size already; higher levels take several times as long for little more
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Compressed:
    """Answers that were compressed lately, by ETag."""

    _cache: LRUCache[str, bytes] = field(default_factory=lambda: LRUCache(CACHE_BYTES, getsizeof=len))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, response: Response) -> Response:
        """The response, smaller when that is worth it."""
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
    """For routes that answer much."""
    return accepts_gzip(request)


def accepts_gzip(request: Request) -> bool:
    """Whether the client takes gzip (RFC 9110, section 12.5.3), without weighing it against others."""
    for one in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = one.strip().partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "").rstrip("0") not in ("q=", "q=0.")
    return False


TakesGzipDep = Annotated[bool, Depends(takes_gzip)]
