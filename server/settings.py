"""What an operator can set: by a TOML file, the environment (FIRN_…) or flags; the later wins.

Every field is described in docs/settings.md; a test compares.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from catalog.errors import Invalid
from catalog.locations.paths import check_warehouse, parse_metastore_uris

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
T = TypeVar("T")


class Group(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LeaseSettings(Group):
    """How long an optimizer may stay silent."""

    seconds: PositiveInt = Field(default=60, description="Silence after which a lease lapses.")
    heartbeat_seconds: PositiveInt = Field(default=10, description="How often an optimizer beats.")
    max_attempts: PositiveInt = Field(default=5, description="How often a job is tried before it is given up.")
    max_waiters: PositiveInt = Field(default=16, description="Optimizers that may wait for a lease at one time.")

    @model_validator(mode="after")
    def _room_for_two_lost_beats(self) -> Self:
        if self.heartbeat_seconds * 3 > self.seconds:
            raise ValueError(f"a {self.seconds} s lease has no room for two lost beats of {self.heartbeat_seconds} s")
        return self


class OptimizerSettings(Group):
    """Optimizers that the server starts; see docs/operations.md."""

    local: NonNegativeInt = Field(
        default=0, description="Local optimizers of the group `default` at most, while nothing else was set for it."
    )
    server: str | None = Field(default=None, description="Address at which started optimizers reach the server.")
    token: SecretStr | None = Field(
        default=None, description="Access token that started optimizers come with, of a service with that role."
    )
    spark_submit: str = Field(default="spark-submit", description="The program that submits to a cluster.")
    scaling_seconds: PositiveFloat = Field(default=5, description="Pause between two looks at the groups' optimizers.")


class BackgroundSettings(Group):
    """How often the server looks after things by itself."""

    plan_seconds: PositiveFloat = Field(default=5, description="Pause between two looks for tables that need a job.")
    reap_seconds: PositiveFloat = Field(default=5, description="Pause between two looks for lapsed leases.")
    hive_index_seconds: PositiveFloat = Field(default=60, description="Pause between two listings of each metastore.")
    hive_sync_seconds: PositiveFloat = Field(default=15, description="Pause between two looks for tables due to sync.")
    hive_events_seconds: PositiveFloat = Field(
        default=5, description="Pause between two looks into what metastores log of changes."
    )
    operation_seconds: PositiveFloat = Field(
        default=2, description="Pause between two looks for started upgrades and imports."
    )
    purge_seconds: PositiveFloat = Field(
        default=5, description="Pause between two looks for dropped tables that are kept no longer."
    )
    reports_seconds: PositiveFloat = Field(
        default=5, description="Pause between two writings of what engines reported."
    )
    cleanup_seconds: PositiveFloat = Field(default=300, description="Pause between two removals of old answers.")
    leader_seconds: PositiveInt = Field(default=30, description="Silence after which another server takes over.")


class HiveSettings(Group):
    """How Firn talks to Hive Metastores."""

    connect_timeout_seconds: PositiveFloat = Field(default=5, description="Time-out of connecting to a metastore.")
    read_timeout_seconds: PositiveFloat = Field(default=60, description="Time-out of one answer of a metastore.")
    pool_size: PositiveInt = Field(default=8, description="Connections kept to each metastore.")
    footer_threads: PositiveInt = Field(default=16, description="Threads that read footers of data files.")
    max_concurrent_upgrades: PositiveInt = Field(
        default=4, description="Upgrades and their checks that run side by side."
    )
    tls: bool = Field(default=False, description="Whether metastores are spoken to over TLS.")
    ca_file: Path | None = Field(
        default=None, description="Authorities to believe, as PEM; by default those of the system."
    )
    authentication: Literal["none", "plain", "kerberos"] = Field(
        default="none", description="`plain` (user and password) or `kerberos` (the ticket of the server's process)."
    )
    user: str | None = Field(default=None, description="Whom metastores are told; unset: nobody.")
    password: SecretStr | None = Field(default=None, description="Of `user`, for `plain`.")
    kerberos_service: str = Field(default="hive", description="First part of the metastores' principal.")
    locks: Literal["auto", "require", "off"] = Field(
        default="auto",
        description="Metastores' locks: taken where there are any, needed to alter tables, or never.",
    )
    lock_timeout_seconds: PositiveFloat = Field(default=5, description="How long to wait for what others have locked.")

    @model_validator(mode="after")
    def _whole_identity(self) -> Self:
        if self.authentication == "plain" and (self.user is None or self.password is None):
            raise ValueError("hive.authentication=plain needs hive.user and hive.password")
        if self.authentication == "plain" and not self.tls:
            raise ValueError("hive.authentication=plain needs hive.tls: the password would cross the network as it is")
        if self.authentication == "kerberos" and find_spec("kerberos") is None:
            raise ValueError("hive.authentication=kerberos needs the Python package kerberos: pip install kerberos")
        return self


class ScanSettings(Group):
    """Scans that the server plans for clients."""

    inline_files: PositiveInt = Field(default=1_000, description="Data files that a scan is answered with at once.")
    task_files: PositiveInt = Field(default=1_000, description="Data files that one task of a larger scan looks at.")
    manifests: PositiveInt = Field(default=50, description="Manifests that one answer may have to read.")
    plan_seconds: PositiveInt = Field(default=3_600, description="Time in which a plan's tasks can be fetched.")


class ReadingSettings(Group):
    """How much the server reads of a file that metadata names, and how long it waits for it."""

    metadata_bytes: PositiveInt = Field(
        default=128 * 1024 * 1024, description="Largest metadata file, unpacked; larger ones are not written either."
    )
    manifest_bytes: PositiveInt = Field(
        default=128 * 1024 * 1024, description="Largest manifest or manifest list; unpacked it may have 8 times that."
    )
    footer_bytes: PositiveInt = Field(default=128 * 1024 * 1024, description="Largest footer of a Parquet or ORC file.")
    seconds: PositiveFloat = Field(
        default=60, description="Time-out of one reading from a network file system, an object store or HDFS."
    )


class StorageSettings(Group):
    """Keys that catalogs with `firn.storage.vending=static` hand out; see docs/storage-credentials.md."""

    read_key_id: str | None = Field(default=None, description="Key given to those who may read a table.")
    read_key_secret: SecretStr | None = Field(default=None, description="Its secret.")
    write_key_id: str | None = Field(default=None, description="Key given to those who may write a table.")
    write_key_secret: SecretStr | None = Field(default=None, description="Its secret.")

    @model_validator(mode="after")
    def _whole_keys(self) -> Self:
        for name in ("read", "write"):
            key, secret = getattr(self, f"{name}_key_id"), getattr(self, f"{name}_key_secret")
            if (key is None) != (secret is None):
                raise ValueError(f"{name}_key_id and {name}_key_secret belong together")
        return self


class AccessSettings(Group):
    """Who may do what; see docs/security.md."""

    enabled: bool = Field(default=False, description="Whether callers must say who they are.")
    cache_seconds: PositiveFloat = Field(
        default=5, le=300, description="How long what was revoked on one server may still be taken on another."
    )
    access_token_seconds: int = Field(default=3600, ge=60, description="Life of tokens given for a client's secret.")
    exchange_seconds: int = Field(
        default=86_400,
        ge=60,
        description="How long a token given for a client's secret can be exchanged for others; then the secret is "
        "needed again.",
    )
    token_days: PositiveInt = Field(default=90, description="Life of a token that was made without saying how long.")
    max_token_days: PositiveInt = Field(default=366, description="Longest life that may be asked for.")
    audit_retention_days: PositiveInt = Field(default=90, description="How long the audit log is kept.")
    audit_flush_seconds: PositiveFloat = Field(default=5, description="Pause between two batches of audited reads.")
    oidc_issuer: str | None = Field(default=None, description="Issuer that people sign in at, an https:// URL.")
    oidc_audience: str | None = Field(default=None, description="Audience that the issuer's tokens must name.")
    oidc_client_id: str | None = Field(default=None, description="Client id of the console at the issuer.")
    oidc_scope: str = Field(default="openid profile email", description="Scope that the console asks for.")
    oidc_name_claim: str = Field(default="preferred_username", description="Claim that people are called by.")
    oidc_roles_claim: str = Field(default="groups", description="Claim with groups or roles; dots lead into objects.")
    oidc_roles: dict[str, str] = Field(
        default_factory=dict, description="Roles by the claim's values; without it a value is a role's name."
    )

    @field_validator("oidc_issuer")
    @classmethod
    def _is_safe(cls, issuer: str | None) -> str | None:
        """Whoever can answer for the issuer can be anybody here."""
        if issuer is None or issuer.startswith("https://"):
            return issuer
        host = urlsplit(issuer).hostname or ""
        if issuer.startswith("http://") and is_loopback(host):
            return issuer
        raise ValueError(f"{issuer} is no https:// URL")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.oidc_issuer is not None and self.oidc_audience is None:
            raise ValueError("oidc_issuer without oidc_audience: tokens made for other programs would be taken")
        if self.exchange_seconds < self.access_token_seconds:
            raise ValueError(f"exchange_seconds is {self.exchange_seconds}: less than access_token_seconds")
        if self.token_days > self.max_token_days:
            raise ValueError(f"token_days is {self.token_days}, max_token_days only {self.max_token_days}")
        return self


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix="FIRN_", env_nested_delimiter="__", frozen=True, extra="forbid", toml_file=None
    )

    data_dir: Path = Field(default=Path("firn-data"), description="Where database, warehouse and logs go by default.")
    host: str = Field(
        default="127.0.0.1", description="Address to listen on; loopback only while access control is off."
    )
    port: int = Field(default=8630, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    database_url: str | None = Field(
        default=None, description="SQLAlchemy URL; by default SQLite in the data directory."
    )
    warehouse: str | None = Field(default=None, description="Warehouse of the catalog `lake` that a fresh server has.")
    metastore: str | None = Field(default=None, description="Metastore of the catalog `lake`, thrift://HOST:PORT.")
    secret_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Encrypts credentials in the database; unset: the key in the data directory, `secret.key`.",
    )
    threads: PositiveInt = Field(default=64, description="Requests that are worked on at one time.")
    workers: PositiveInt = Field(default=1, description="Processes that answer; one fills about one core.")
    max_body_bytes: PositiveInt = Field(default=64 * 1024 * 1024, description="Largest request that is read.")
    metrics_retention_days: PositiveInt = Field(
        default=7, description="How long reports of scans and commits are kept."
    )
    jobs_retention_days: int = Field(
        default=30, ge=7, description="How long ended jobs are kept; the last eight of each kind and table stay longer."
    )
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")
    file_io: dict[str, str] = Field(
        default_factory=dict, description="PyIceberg FileIO properties, such as s3.endpoint."
    )
    lease: LeaseSettings = Field(default=LeaseSettings(), description="Leases of optimizers.")
    optimizers: OptimizerSettings = Field(default=OptimizerSettings(), description="Optimizers that are started.")
    background: BackgroundSettings = Field(default=BackgroundSettings(), description="The server's own work.")
    hive: HiveSettings = Field(default=HiveSettings(), description="Hive Metastores.")
    scan: ScanSettings = Field(default=ScanSettings(), description="Scans planned by the server.")
    reading: ReadingSettings = Field(default=ReadingSettings(), description="Files that metadata names.")
    storage: StorageSettings = Field(default=StorageSettings(), description="Keys that are handed out.")
    access: AccessSettings = Field(default=AccessSettings(), description="Who may do what.")

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        if level.upper() in LOG_LEVELS:
            return level.upper()
        raise ValueError(f"{level!r} is none of {', '.join(LOG_LEVELS)}")

    @field_validator("warehouse")
    @classmethod
    def _is_a_place(cls, warehouse: str | None) -> str | None:
        return warehouse if warehouse is None else _told(check_warehouse, warehouse)

    @field_validator("metastore")
    @classmethod
    def _is_an_address(cls, metastore: str | None) -> str | None:
        return metastore if metastore is None else ",".join(_told(parse_metastore_uris, metastore))

    @model_validator(mode="after")
    def _loopback(self) -> Self:
        if self.access.enabled or is_loopback(self.host):
            return self
        raise ValueError(
            f"{self.host} is not a loopback address: without access control Firn answers this machine alone; "
            "set access.enabled, see docs/security.md"
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file."""
        _ = dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def resolved_database_url(self) -> str:
        """The database to open."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'firn.db'}"

    @property
    def own_address(self) -> str:
        """Where optimizers that are started here find the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.optimizers.server or f"http://{host}:{self.port}"

    @property
    def resolved_warehouse(self) -> str:
        """Where the default catalog's tables go."""
        return self.warehouse or (self.data_dir.absolute() / "warehouse").as_uri()


def is_loopback(host: str) -> bool:
    """Whether the address is this machine's own; a ValueError for what is no address."""
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


def _told(check: Callable[[str], T], text: str) -> T:
    """A check of the domain's as pydantic wants it: its error's words as a ValueError."""
    try:
        return check(text)
    except Invalid as error:
        raise ValueError(f"{error.message}; {error.hint}") from error


def load_settings(config: Path | None = None, **flags: object) -> Settings:
    """Settings of one server; pydantic's ValidationError says what does not fit."""

    class FromFile(Settings):
        """Settings that also read this file."""

        model_config = SettingsConfigDict(toml_file=config)

    values = {key: value for key, value in flags.items() if value is not None}
    loaded = FromFile(**values)  # type: ignore[arg-type]  # pydantic checks the flags
    return Settings.model_construct(**dict(loaded))  # an instance of a class that other processes can unpickle
