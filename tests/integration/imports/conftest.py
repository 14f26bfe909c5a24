from __future__ import annotations

from tests.server.service.imports.conftest import mortal

__all__ = ["mortal"]
