"""Schedulers that run pipelines of a server and wait for tables: `firn.integrations.airflow` and `.dagster`.

Each needs its extra, `firn[airflow]` or `firn[dagster]`. What both do with a server is in the modules beside them, and
needs neither.
"""

from __future__ import annotations

__all__: list[str] = []
