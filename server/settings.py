"""The settings of an operator, by a TOML file, the environment (FIRN_…) or flags; the later wins.

docs/settings.md describes every field; a test compares both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
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
from server.hive_settings import HadoopSettings, HiveSettings
from server.lineage_settings import LineageSettings
from server.notification_settings import MailSettings, NotificationSettings
from server.reading_settings import ReadingSettings
from server.settings_group import Group

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
T = TypeVar("T")


class LeaseSettings(Group):
    """How long an optimizer may stay silent."""

    seconds: PositiveInt = Field(default=60, description="Silence of an optimizer after which its lease expires.")
    heartbeat_seconds: PositiveInt = Field(default=10, description="Interval of an optimizer's heartbeats.")
    max_attempts: PositiveInt = Field(default=5, description="Attempts of a job before it fails.")
    max_waiters: PositiveInt = Field(default=16, description="Optimizers that may wait for a lease at the same time.")

    @model_validator(mode="after")
    def _room_for_two_lost_beats(self) -> Self:
        if self.heartbeat_seconds * 3 > self.seconds:
            raise ValueError(f"a {self.seconds} s lease has no room for two lost beats of {self.heartbeat_seconds} s")
        return self


class OptimizerSettings(Group):
    """Optimizers that the server starts; see docs/operations.md."""

    local: NonNegativeInt = Field(
        default=0, description="Most local optimizers of the group `default`, unless you set a launch for the group."
    )
    server: str | None = Field(default=None, description="Address of the server for the optimizers that it starts.")
    token: SecretStr | None = Field(
        default=None,
        description="Access token for the optimizers that the server starts; its service needs the role `optimizer`.",
    )
    spark_submit: str = Field(default="spark-submit", description="Program that submits to a cluster.")
    scaling_seconds: PositiveFloat = Field(default=5, description="Interval of scaling the groups of optimizers.")


class BackgroundSettings(Group):
    """Intervals of the background tasks."""

    plan_seconds: PositiveFloat = Field(default=5, description="Interval of the planner.")
    search_seconds: PositiveFloat = Field(default=5, description="Interval of indexing changed tables for the search.")
    lineage_seconds: PositiveFloat = Field(
        default=5, description="Interval of collecting lineage from views, pipelines, commits and scans."
    )
    trends_seconds: PositiveFloat = Field(
        default=60, description="Interval of sampling tables, namespaces and catalogs for their trends."
    )
    reap_seconds: PositiveFloat = Field(default=5, description="Interval of checks for expired leases.")
    hive_index_seconds: PositiveFloat = Field(default=60, description="Interval of listing each metastore.")
    hive_sync_seconds: PositiveFloat = Field(
        default=15, description="Interval of checks for tables that are due to sync."
    )
    hive_events_seconds: PositiveFloat = Field(
        default=5, description="Interval of reading the metastores' notification logs."
    )
    operation_seconds: PositiveFloat = Field(
        default=2, description="Interval of checks for started upgrades and imports."
    )
    purge_seconds: PositiveFloat = Field(
        default=5, description="Interval of purging dropped tables whose retention has ended."
    )
    reports_seconds: PositiveFloat = Field(default=5, description="Interval of storing the metrics reports of engines.")
    cleanup_seconds: PositiveFloat = Field(
        default=300, description="Interval of removing old idempotency keys and other expired rows."
    )
    leader_seconds: PositiveInt = Field(default=30, description="Silence after which another server takes over.")


class ScanSettings(Group):
    """Scans that the server plans for clients."""

    inline_files: PositiveInt = Field(
        default=1_000, description="Most data files of a scan that the server answers at once."
    )
    task_files: PositiveInt = Field(default=1_000, description="Data files in each task of a larger scan, about.")
    manifests: PositiveInt = Field(default=50, description="Most manifests that the server reads for one answer.")
    plan_seconds: PositiveInt = Field(
        default=3_600, description="Time during which clients can fetch the tasks of a plan."
    )


class ImageSettings(Group):
    """Settings of images, in which engines read keyed tables."""

    pending_bytes: PositiveInt = Field(
        default=64 * 1024 * 1024,
        description="Most pending changes that the server reads for one image; above, a job builds it.",
    )
    key_bytes: PositiveInt = Field(
        default=1024 * 1024 * 1024,
        description="Most key columns of base that the server reads for one image; above, a job builds it.",
    )
    memory_bytes: PositiveInt = Field(
        default=500 * 1024 * 1024, description="Memory of one build of an image; with less memory it takes longer."
    )
    waiting: PositiveInt = Field(default=16, description="Readers that may wait for images at one time.")
    seconds: PositiveFloat = Field(default=120, description="Time-out of a build of an image, and of a check of keys.")
    write_rows: PositiveInt = Field(
        default=5_000_000,
        description="Most rows that one statement inserts, changes or deletes; the server reads their keys, about 100 "
        "bytes a row.",
    )
    changes_bytes: PositiveInt = Field(
        default=128 * 1024 * 1024,
        description="Most data files that the server reads to show the changes of a table.",
    )


class QuerySettings(Group):
    """SQL of people, by the instant engine and by Spark; see docs/sql.md."""

    enabled: bool = Field(default=True, description="Whether people may read rows by SQL and previews.")
    processes: PositiveInt = Field(default=2, description="Queries that run at the same time, each in a process.")
    waiting: PositiveInt = Field(default=32, description="Most queries that wait or run; a user may have half of them.")
    seconds: PositiveFloat = Field(default=60, description="Time-out of a query.")
    memory_bytes: PositiveInt = Field(
        default=1024 * 1024 * 1024, ge=64 * 1024 * 1024, description="Memory of one query."
    )
    threads: PositiveInt = Field(default=2, description="Threads of one query.")
    rows: PositiveInt = Field(default=10_000, description="Most rows of a result.")
    result_bytes: PositiveInt = Field(default=16 * 1024 * 1024, description="Largest result, as text.")
    files: PositiveInt = Field(default=20_000, description="Most data files of a table in a query.")
    result_minutes: PositiveInt = Field(default=60, description="Retention of results.")
    history_days: PositiveInt = Field(default=30, description="Retention of the history of queries.")
    spark_seconds: PositiveFloat = Field(default=600, description="Time-out of a query in Spark.")
    spark_queued_seconds: PositiveFloat = Field(
        default=120, description="Time after which a query fails that no optimizer takes."
    )


class PipelineSettings(Group):
    """What pipelines may have; see docs/pipelines.md."""

    allow_code: bool | None = Field(
        default=None,
        description="Whether pipelines may have Python; by default only while access control is off.",
    )


class StorageSettings(Group):
    """Keys that catalogs with `firn.storage.vending=static` hand out; see docs/storage-credentials.md."""

    read_key_id: str | None = Field(default=None, description="Key id for users who may read a table.")
    read_key_secret: SecretStr | None = Field(default=None, description="Its secret.")
    write_key_id: str | None = Field(default=None, description="Key id for users who may write a table.")
    write_key_secret: SecretStr | None = Field(default=None, description="Its secret.")

    @model_validator(mode="after")
    def _whole_keys(self) -> Self:
        for name in ("read", "write"):
            key, secret = getattr(self, f"{name}_key_id"), getattr(self, f"{name}_key_secret")
            if (key is None) != (secret is None):
                raise ValueError(f"{name}_key_id and {name}_key_secret belong together")
        return self


class AccessSettings(Group):
    """Settings of access control; see docs/security.md."""

    enabled: bool = Field(default=False, description="Whether callers must authenticate.")
    cache_seconds: PositiveFloat = Field(
        default=5, le=300, description="Time until a revoked token or privilege is refused by all servers."
    )
    access_token_seconds: int = Field(
        default=3600, ge=60, description="Lifetime of a token that the server issues for a client's secret."
    )
    exchange_seconds: int = Field(
        default=86_400,
        ge=60,
        description="Time during which such a token can be exchanged for a new one, without the secret.",
    )
    token_days: PositiveInt = Field(default=90, description="Lifetime of a token if none is requested.")
    max_token_days: PositiveInt = Field(default=366, description="Longest lifetime that a user may request.")
    audit_retention_days: PositiveInt = Field(default=90, description="Retention of the audit log.")
    audit_flush_seconds: PositiveFloat = Field(default=5, description="Interval of storing audited reads.")
    oidc_issuer: str | None = Field(
        default=None, description="OpenID Connect issuer where people sign in, an https:// URL."
    )
    oidc_audience: str | None = Field(default=None, description="Audience that the issuer's tokens must name.")
    oidc_client_id: str | None = Field(default=None, description="Client id of the console at the issuer.")
    oidc_scope: str = Field(default="openid profile email", description="Scope that the console requests.")
    oidc_name_claim: str = Field(default="preferred_username", description="Claim with the user's name.")
    oidc_roles_claim: str = Field(
        default="groups", description="Claim with groups or roles; dots separate nested objects."
    )
    oidc_roles: dict[str, str] = Field(
        default_factory=dict, description="Role of each value of the claim; unset: the values are names of roles."
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

    data_dir: Path = Field(
        default=Path("firn-data"),
        description="Directory of database, warehouse and logs, unless other settings name one.",
    )
    host: str = Field(
        default="127.0.0.1", description="Address to listen on; loopback only while access control is off."
    )
    port: int = Field(default=8630, ge=0, le=65535, description="Port to listen on; 0 chooses a free one.")
    database_url: str | None = Field(
        default=None, description="SQLAlchemy URL; by default SQLite in the data directory."
    )
    warehouse: str | None = Field(default=None, description="Warehouse of the catalog `lake` of a new server.")
    metastore: str | None = Field(
        default=None, description="Metastore of the catalog `lake` of a new server, thrift://HOST:PORT."
    )
    secret_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Key that encrypts credentials in the database; by default `secret.key` in the data directory.",
    )
    threads: PositiveInt = Field(default=64, description="Requests that the server handles at the same time.")
    workers: PositiveInt = Field(default=1, description="Server processes; each uses about one core.")
    max_body_bytes: PositiveInt = Field(
        default=64 * 1024 * 1024, description="Largest request body that the server reads."
    )
    metrics_retention_days: PositiveInt = Field(
        default=7, description="Retention of metrics reports of scans and commits."
    )
    jobs_retention_days: int = Field(
        default=30, ge=7, description="Retention of ended jobs; the last eight of each kind and table stay longer."
    )
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")
    file_io: dict[str, str] = Field(
        default_factory=dict, description="PyIceberg FileIO properties, such as s3.endpoint."
    )
    lease: LeaseSettings = Field(default=LeaseSettings(), description="Leases of optimizers.")
    optimizers: OptimizerSettings = Field(default=OptimizerSettings(), description="Optimizers that are started.")
    background: BackgroundSettings = Field(default=BackgroundSettings(), description="The server's own work.")
    hive: HiveSettings = Field(default=HiveSettings(), description="Hive Metastores.")
    hadoop: HadoopSettings = Field(default=HadoopSettings(), description="HDFS.")
    scan: ScanSettings = Field(default=ScanSettings(), description="Scans planned by the server.")
    images: ImageSettings = Field(default=ImageSettings(), description="Keyed tables as engines read them.")
    queries: QuerySettings = Field(default=QuerySettings(), description="SQL of people.")
    reading: ReadingSettings = Field(default=ReadingSettings(), description="Files that metadata names.")
    storage: StorageSettings = Field(default=StorageSettings(), description="Keys that are handed out.")
    access: AccessSettings = Field(default=AccessSettings(), description="Who may do what.")
    pipelines: PipelineSettings = Field(default=PipelineSettings(), description="What pipelines may have.")
    lineage: LineageSettings = Field(default=LineageSettings(), description="OpenLineage events.")
    notifications: NotificationSettings = Field(
        default=NotificationSettings(), description="Notifications of problems."
    )
    mail: MailSettings = Field(default=MailSettings(), description="The mail server of notifications.")

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        if level.upper() in LOG_LEVELS:
            return level.upper()
        raise ValueError(f"{level!r} is none of {', '.join(LOG_LEVELS)}")

    @field_validator("warehouse")
    @classmethod
    def _is_a_place(cls, warehouse: str | None) -> str | None:
        return warehouse if warehouse is None else _raise_value_error(check_warehouse, warehouse)

    @field_validator("metastore")
    @classmethod
    def _is_an_address(cls, metastore: str | None) -> str | None:
        return metastore if metastore is None else ",".join(_raise_value_error(parse_metastore_uris, metastore))

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
    def allows_code(self) -> bool:
        """Whether pipelines may have Python, which optimizers with `--allow-code` run."""
        allowed = self.pipelines.allow_code
        return not self.access.enabled if allowed is None else allowed

    @property
    def resolved_database_url(self) -> str:
        """The database to open."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'firn.db'}"

    @property
    def own_address(self) -> str:
        """The server's address for optimizers that it starts."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.optimizers.server or f"http://{host}:{self.port}"

    @property
    def resolved_warehouse(self) -> str:
        """The warehouse of the default catalog."""
        return self.warehouse or (self.data_dir.absolute() / "warehouse").as_uri()


def is_loopback(host: str) -> bool:
    """Whether the address is this machine's own; a ValueError for what is no address."""
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


def _raise_value_error(check: Callable[[str], T], text: str) -> T:
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
