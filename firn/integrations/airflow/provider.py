"""What Airflow reads about this provider when it starts: the type of connection, and where hook and operators are."""

from __future__ import annotations

from typing import Any

_PACKAGE = "firn.integrations.airflow"
_NAME = "Firn"


def get_provider_info() -> dict[str, Any]:
    """The provider, as Airflow's schema has it."""
    parts = {"operators": "operators", "sensors": "sensors", "hooks": "hook", "triggers": "triggers"}
    return {
        "package-name": "firn",
        "name": _NAME,
        "description": "Runs pipelines of Firn, and waits for its tables.",
        "integrations": [{"integration-name": _NAME, "external-doc-url": "", "tags": ["service"]}],
        **{
            part: [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.{module}"]}]
            for part, module in parts.items()
        },
        "connection-types": [
            {"connection-type": "firn", "hook-class-name": f"{_PACKAGE}.hook.FirnHook", "hook-name": _NAME}
        ],
        "asset-uris": [{"schemes": ["firn"], "handler": f"{_PACKAGE}.assets.check_uri"}],
    }
