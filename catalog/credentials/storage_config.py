"""Storage configuration: the properties `firn.storage.…`, by which clients reach a catalog's files.

None of them is a secret. Keys are settings of the server, and no API returns them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from catalog.errors import Invalid
from catalog.locations.paths import check_warehouse

PREFIX = "firn.storage."
VENDING = f"{PREFIX}vending"
SIGNING = f"{PREFIX}remote-signing"
ALLOWED = f"{PREFIX}allowed-locations"
ENDPOINT = f"{PREFIX}s3.endpoint"
STS_ENDPOINT = f"{PREFIX}s3.sts-endpoint"
REGION = f"{PREFIX}s3.region"
PATH_STYLE = f"{PREFIX}s3.path-style"
ROLE = f"{PREFIX}s3.role-arn"
EXTERNAL_ID = f"{PREFIX}s3.external-id"
SESSION_SECONDS = f"{PREFIX}s3.session-seconds"
KMS_KEYS = f"{PREFIX}s3.kms-keys"
_KNOWN = frozenset(
    {VENDING, SIGNING, ALLOWED, ENDPOINT, STS_ENDPOINT, REGION, PATH_STYLE, ROLE, EXTERNAL_ID, SESSION_SECONDS}
    | {KMS_KEYS}
)

DEFAULT_REGION = "us-east-1"
SHORTEST_SESSION, DEFAULT_SESSION, LONGEST_SESSION = 900, 3_600, 43_200
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ROLE = re.compile(r"arn:[a-z0-9-]+:iam::\d*:role/[\w+=,.@/-]+", re.ASCII)
_KMS_KEY = re.compile(r"[A-Za-z0-9:/_-]{1,2048}")
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)


class Vending(StrEnum):
    """The response to clients that ask for credentials."""

    NONE = "none"  # the storage's address, no credentials
    STATIC = "static"  # keys from the server's settings, with all their rights
    STS = "sts"  # credentials for about an hour, limited to the table by a session policy


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """A catalog's parsed storage properties."""

    vending: Vending = Vending.NONE
    signs: bool = False
    """Whether the server signs clients' requests to S3."""
    allowed: tuple[str, ...] = ()
    """Locations for tables besides the warehouse: see catalog.locations.location_rule."""
    endpoint: str | None = None
    sts_endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    role_arn: str | None = None
    external_id: str | None = None
    session_seconds: int = DEFAULT_SESSION
    kms_keys: frozenset[str] = frozenset()
    """The KMS keys that clients may use to encrypt new objects, in the clients' spelling."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> StorageConfig:
        """The configuration of a catalog's properties; Invalid if one is unknown, malformed or incomplete."""
        unknown = sorted(key for key in properties if key.startswith(PREFIX) and key not in _KNOWN)
        if unknown:
            raise Invalid(
                f"{unknown[0]} is no property of a catalog's storage",
                hint="see docs/storage-credentials.md; keys are settings of the server, never properties",
            )
        config = cls(
            vending=_parse_vending(properties.get(VENDING, Vending.NONE)),
            signs=_parse_flag(properties, SIGNING),
            allowed=tuple(check_warehouse(part) for part in properties.get(ALLOWED, "").split(",") if part.strip()),
            endpoint=_parse_url(properties, ENDPOINT),
            sts_endpoint=_parse_url(properties, STS_ENDPOINT),
            region=_parse_pattern(properties, REGION, _REGION, "eu-central-1"),
            path_style=_parse_flag(properties, PATH_STYLE),
            role_arn=_parse_pattern(properties, ROLE, _ROLE, "arn:aws:iam::123456789012:role/lake"),
            external_id=_parse_pattern(properties, EXTERNAL_ID, _EXTERNAL_ID, "firn-lake"),
            session_seconds=_parse_seconds(properties.get(SESSION_SECONDS)),
            kms_keys=_parse_kms_keys(properties.get(KMS_KEYS, "")),
        )
        if config.vending is Vending.STS and config.role_arn is None:
            raise Invalid(f"{VENDING}=sts needs {ROLE}", hint="name the role whose rights are cut down to each table's")
        return config

    @property
    def hands_out(self) -> bool:
        """Whether clients reach files through the catalog. Then no table may lie in another table's directory."""
        return self.signs or self.vending is not Vending.NONE

    @property
    def signing_region(self) -> str:
        """The region for signed requests."""
        return self.region or DEFAULT_REGION

    @property
    def hints(self) -> dict[str, str]:
        """The settings for clients that reach the storage with their own credentials."""
        settings = {"s3.endpoint": self.endpoint, "s3.region": self.region, "client.region": self.region}
        hints = {key: value for key, value in settings.items() if value is not None}
        return hints | ({"s3.path-style-access": "true"} if self.path_style else {})

    @property
    def partition(self) -> str:
        """The AWS partition of the role, and so of the bucket."""
        return "aws" if self.role_arn is None else self.role_arn.split(":")[1]


def _parse_vending(text: str) -> Vending:
    try:
        return Vending(text)
    except ValueError as error:
        raise Invalid(f"{VENDING}={text}: expected {', '.join(Vending)}") from error


def _parse_flag(properties: Mapping[str, str], key: str) -> bool:
    value = properties.get(key, "false")
    if value not in ("true", "false"):
        raise Invalid(f"{key}={value}: expected true or false")
    return value == "true"


def _parse_url(properties: Mapping[str, str], key: str) -> str | None:
    text = properties.get(key)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        base_url = f"{parts.scheme}://{parts.hostname}" + ("" if parts.port is None else f":{parts.port}")
    except ValueError:
        base_url = ""
    if (
        not re.fullmatch(r"https?://[a-z0-9._:-]+|https?://\[[0-9a-f:.]+\](:\d+)?", base_url)
        or text.rstrip("/") != base_url
    ):
        raise Invalid(f"{key}={text}: expected http://HOST:PORT or https://HOST, in lower case and without a path")
    return base_url


def _parse_pattern(properties: Mapping[str, str], key: str, pattern: re.Pattern[str], example: str) -> str | None:
    text = properties.get(key)
    if text is not None and pattern.fullmatch(text) is None:
        raise Invalid(f"{key}={text}: expected something like {example}")
    return text


def _parse_kms_keys(text: str) -> frozenset[str]:
    keys = frozenset(part.strip() for part in text.split(",") if part.strip())
    for key in keys:
        if _KMS_KEY.fullmatch(key) is None:
            raise Invalid(f"{KMS_KEYS}: {key!r} is no id, ARN or alias of a KMS key")
    return keys


def _parse_seconds(text: str | None) -> int:
    if text is None:
        return DEFAULT_SESSION
    if not re.fullmatch(r"[0-9]{1,6}", text) or not SHORTEST_SESSION <= int(text) <= LONGEST_SESSION:
        raise Invalid(f"{SESSION_SECONDS}={text}: expected a number from {SHORTEST_SESSION} to {LONGEST_SESSION}")
    return int(text)
