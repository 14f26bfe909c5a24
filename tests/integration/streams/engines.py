"""Both engines of drains, for tests of what they have in common."""

from __future__ import annotations

from typing import Any

from firn.drains.drain import Drained
from firn.drains.engine import Engine
from firn.drains.light import open_light_drain
from firn.spark.log_drain import _open
from firn.spark.sessions import client_of
from tests.spark_fixtures import RunningServer


def open_drain(server: RunningServer, table: str, engine: Engine) -> Any:
    """A drain of a table that is named with the session's catalog, as in `lake.db.orders`."""
    if engine is Engine.SPARK:
        return _open(table, server.spark, None)
    client, name = client_of(server.spark, table)
    return open_light_drain(client.tables[name])


def run_drain(server: RunningServer, table: str, engine: Engine) -> Drained:
    """Drain a table."""
    drained: Drained = open_drain(server, table, engine).run()
    return drained
