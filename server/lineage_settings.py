"""The settings of OpenLineage events."""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr, model_validator

from server.settings_group import Group


class LineageSettings(Group):
    """Where events of pipelines' runs go (nowhere without `url` and `file`), and what the server takes from others."""

    url: str | None = Field(
        default=None,
        description="HTTP endpoint that takes OpenLineage events, such as http://HOST:5000/api/v1/lineage.",
    )
    token: SecretStr | None = Field(default=None, description="Bearer token for the endpoint.")
    file: Path | None = Field(default=None, description="File to which the server appends events, instead of `url`.")
    namespace: str = Field(
        default="firn", min_length=1, max_length=255, description="OpenLineage namespace of Firn's jobs and tables."
    )
    seconds: PositiveFloat = Field(default=5, description="Interval of sending events.")

    catalogs: dict[str, str] = Field(
        default={},
        description="Firn's catalogs by OpenLineage namespaces of engines, such as trino://trino:8080 or"
        " trino://trino:8080/lake: the server takes their datasets for its tables.",
    )
    days: PositiveInt = Field(
        default=90, description="Days that the server keeps edges of events, commits and scans that nobody repeats."
    )

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if self.url is not None and self.file is not None:
            raise ValueError("lineage.url and lineage.file exclude each other")
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{self.url!r} is no http:// or https:// address")
            if parts.username is not None or parts.password is not None:
                raise ValueError("lineage.url has a password in it: set lineage.token")
        return self
