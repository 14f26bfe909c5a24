"""What a client is told of a table's configuration, by what the client is (decision 65).

DuckDB takes any configuration that comes with a table for credentials, and then reads nothing with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.scan.mode import CONFIG
from server.service.access.caller import caller

_KNOW_PLANNING = ("Apache Iceberg", "PyIceberg")
"""How the names of clients begin that read `scan-planning-mode`, or would not mind it."""
_JAVA_AGENT = "Apache-HttpClient/"
"""Java's client, should a proxy have taken its name away: it must not have the stores of keyed tables planned."""
_DUCKDB_AGENT = "duckdb"


def config_told(config: Mapping[str, str]) -> Mapping[str, str]:
    """The configuration of a table without what the client would misunderstand."""
    if CONFIG not in config or _knows_planning():
        return config
    return {key: value for key, value in config.items() if key != CONFIG}


def takes_config_for_credentials() -> bool:
    """Whether the client is to be told nothing beside credentials."""
    return (caller.get().agent or "").lower().startswith(_DUCKDB_AGENT)


def _knows_planning() -> bool:
    client = caller.get()
    return (client.engine or "").startswith(_KNOW_PLANNING) or (client.agent or "").startswith(_JAVA_AGENT)
