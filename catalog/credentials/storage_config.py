"""How the files of a catalog are reached by its clients: the properties `firn.storage.…` of a catalog.

None of them is a secret. Keys are the server's settings, which no API returns.
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
    """What clients that ask for credentials get."""

    NONE = "none"  # where the storage is, no credentials
    STATIC = "static"  # keys of the server's settings, which reach whatever they reach
    STS = "sts"  # credentials for an hour or so, limited to the table by a session policy


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """A catalog's properties about its storage, read."""

    vending: Vending = Vending.NONE
    signs: bool = False
    """Whether the server signs requests to S3 for clients."""
    allowed: tuple[str, ...] = ()
    """Where tables may lie besides the warehouse: see catalog.locations.location_rule."""
    endpoint: str | None = None
    sts_endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    role_arn: str | None = None
    external_id: str | None = None
    session_seconds: int = DEFAULT_SESSION
    kms_keys: frozenset[str] = frozenset()
    """The KMS keys that clients may have new objects encrypted with, written as they send them."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> StorageConfig:
        """Out of a catalog's properties; Invalid when one is unknown, malformed or lacks another."""
        unknown = sorted(key for key in properties if key.startswith(PREFIX) and key not in _KNOWN)
        if unknown:
            raise Invalid(
                f"{unknown[0]} is no property of a catalog's storage",
                hint="see docs/storage-credentials.md; keys are settings of the server, never properties",
            )
        config = cls(
            vending=_vending(properties.get(VENDING, Vending.NONE)),
            signs=_flag(properties, SIGNING),
            allowed=tuple(check_warehouse(part) for part in properties.get(ALLOWED, "").split(",") if part.strip()),
            endpoint=_url(properties, ENDPOINT),
            sts_endpoint=_url(properties, STS_ENDPOINT),
            region=_matching(properties, REGION, _REGION, "eu-central-1"),
            path_style=_flag(properties, PATH_STYLE),
            role_arn=_matching(properties, ROLE, _ROLE, "arn:aws:iam::123456789012:role/lake"),
            external_id=_matching(properties, EXTERNAL_ID, _EXTERNAL_ID, "firn-lake"),
            session_seconds=_seconds(properties.get(SESSION_SECONDS)),
            kms_keys=_kms_keys(properties.get(KMS_KEYS, "")),
        )
        if config.vending is Vending.STS and config.role_arn is None:
            raise Invalid(f"{VENDING}=sts needs {ROLE}", hint="name the role whose rights are cut down to each table's")
        return config

    @property
    def hands_out(self) -> bool:
        """Whether anybody gets at files by way of the catalog: then no table may lie in another's place."""
        return self.signs or self.vending is not Vending.NONE

    @property
    def signing_region(self) -> str:
        """The region that requests are signed for."""
        return self.region or DEFAULT_REGION

    @property
    def hints(self) -> dict[str, str]:
        """What a client has to know to reach the storage with credentials of its own."""
        found = {"s3.endpoint": self.endpoint, "s3.region": self.region, "client.region": self.region}
        told = {key: value for key, value in found.items() if value is not None}
        return told | ({"s3.path-style-access": "true"} if self.path_style else {})

    @property
    def partition(self) -> str:
        """The part of AWS that the role, and so the bucket, is in."""
        return "aws" if self.role_arn is None else self.role_arn.split(":")[1]


def _vending(text: str) -> Vending:
    try:
        return Vending(text)
    except ValueError as error:
        raise Invalid(f"{VENDING}={text}: expected {', '.join(Vending)}") from error


def _flag(properties: Mapping[str, str], key: str) -> bool:
    value = properties.get(key, "false")
    if value not in ("true", "false"):
        raise Invalid(f"{key}={value}: expected true or false")
    return value == "true"


def _url(properties: Mapping[str, str], key: str) -> str | None:
    text = properties.get(key)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        whole = f"{parts.scheme}://{parts.hostname}" + ("" if parts.port is None else f":{parts.port}")
    except ValueError:
        whole = ""
    if not re.fullmatch(r"https?://[a-z0-9._:-]+|https?://\[[0-9a-f:.]+\](:\d+)?", whole) or text.rstrip("/") != whole:
        raise Invalid(f"{key}={text}: expected http://HOST:PORT or https://HOST, in lower case and without a path")
    return whole


def _matching(properties: Mapping[str, str], key: str, pattern: re.Pattern[str], example: str) -> str | None:
    text = properties.get(key)
    if text is not None and pattern.fullmatch(text) is None:
        raise Invalid(f"{key}={text}: expected something like {example}")
    return text


def _kms_keys(text: str) -> frozenset[str]:
    keys = frozenset(part.strip() for part in text.split(",") if part.strip())
    for key in keys:
        if _KMS_KEY.fullmatch(key) is None:
            raise Invalid(f"{KMS_KEYS}: {key!r} is no id, ARN or alias of a KMS key")
    return keys


def _seconds(text: str | None) -> int:
    if text is None:
        return DEFAULT_SESSION
    if not re.fullmatch(r"[0-9]{1,6}", text) or not SHORTEST_SESSION <= int(text) <= LONGEST_SESSION:
        raise Invalid(f"{SESSION_SECONDS}={text}: expected a number from {SHORTEST_SESSION} to {LONGEST_SESSION}")
    return int(text)
