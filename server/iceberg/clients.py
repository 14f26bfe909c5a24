"""The table configuration that each client gets, by its name (decision 65).

DuckDB interprets any configuration of a table as credentials, and then cannot read the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.scan.mode import CONFIG
from server.service.access.caller import caller

_KNOW_PLANNING = ("Apache Iceberg", "PyIceberg")
"""Name prefixes of clients that support or ignore `scan-planning-mode`."""
_JAVA_AGENT = "Apache-HttpClient/"
"""Java's client without its name, which a proxy may remove: the server must not plan keyed stores for it."""
_DUCKDB_AGENT = "duckdb"
_GO_AGENT = "GoIceberg/"


def filter_config(config: Mapping[str, str]) -> Mapping[str, str]:
    """Remove the configuration that the client would misunderstand."""
    if CONFIG not in config or _supports_planning():
        return config
    return {key: value for key, value in config.items() if key != CONFIG}


def is_duckdb() -> bool:
    """Whether the client interprets any configuration as credentials, and may misread deletion vectors."""
    return (caller.get().agent or "").lower().startswith(_DUCKDB_AGENT)


def name_go_client() -> str | None:
    """The name of a client that reads null in a column that a file lacks, whatever the file's partition says."""
    agent = caller.get().agent or ""
    return "iceberg-go" if agent.startswith(_GO_AGENT) else None


def _supports_planning() -> bool:
    client = caller.get()
    return (client.engine or "").startswith(_KNOW_PLANNING) or (client.agent or "").startswith(_JAVA_AGENT)
