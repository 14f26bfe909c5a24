from __future__ import annotations

from tests.server.metastore.addresses import connect, nobody, silent

__all__ = ["connect", "nobody", "silent"]
