"""Settings of the connections to metastores and to HDFS."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr, field_validator, model_validator

from server.hadoop import check_conf_dir, check_kerberos
from server.kerberos.keytab import find_principal, resolve_host
from server.kerberos.principals import HOST, check_principal
from server.settings_group import Group


class HiveSettings(Group):
    """Settings of the connection to Hive Metastores."""

    connect_timeout_seconds: PositiveFloat = Field(default=5, description="Time-out for a connection to a metastore.")
    read_timeout_seconds: PositiveFloat = Field(default=60, description="Time-out for an answer of a metastore.")
    pool_size: PositiveInt = Field(default=8, description="Most open connections to each metastore.")
    footer_threads: PositiveInt = Field(default=16, description="Threads that read footers of data files.")
    max_concurrent_upgrades: PositiveInt = Field(
        default=4, description="Most upgrades and upgrade checks at the same time."
    )
    tls: bool = Field(default=False, description="Whether to connect to metastores over TLS.")
    ca_file: Path | None = Field(
        default=None, description="PEM file of trusted certificate authorities; by default those of the system."
    )
    authentication: Literal["none", "plain", "kerberos"] = Field(
        default="none", description="`plain` (user and password) or `kerberos` (as `hadoop.principal`)."
    )
    user: str | None = Field(default=None, description="User name for the metastores; unset: none.")
    password: SecretStr | None = Field(default=None, description="Password of `user`, for `plain`.")
    kerberos_principal: str = Field(
        default="hive/_HOST",
        description="Kerberos principal of the metastores, as their `hive.metastore.kerberos.principal`; `_HOST` "
        "stands for each one's host.",
    )
    locks: Literal["auto", "require", "off"] = Field(
        default="auto",
        description="Locks of metastores: `auto` takes them if there are any, `require` refuses changes without one, "
        "`off` takes none.",
    )
    lock_timeout_seconds: PositiveFloat = Field(
        default=5, description="Time to wait for a lock that somebody else holds."
    )

    @field_validator("kerberos_principal")
    @classmethod
    def _is_service(cls, name: str) -> str:
        return check_principal(name, needs_host=True)

    @model_validator(mode="after")
    def _whole_identity(self) -> Self:
        if self.authentication == "plain" and (self.user is None or self.password is None):
            raise ValueError("hive.authentication=plain needs hive.user and hive.password")
        if self.authentication == "plain" and not self.tls:
            raise ValueError("hive.authentication=plain needs hive.tls: the password would cross the network as it is")
        return self


class HadoopSettings(Group):
    """The cluster whose HDFS holds tables."""

    conf_dir: Path | None = Field(
        default=None,
        description="Directory of `core-site.xml` and `hdfs-site.xml`; by default what `HADOOP_CONF_DIR` names.",
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        description="User on a cluster without Kerberos; by default `HADOOP_USER_NAME`, or that of the process.",
    )
    principal: str | None = Field(
        default=None,
        description="Kerberos principal of the server; `_HOST` stands for this machine's name. See docs/clusters.md.",
    )
    keytab: Path | None = Field(default=None, description="Keytab with the keys of `principal`.")

    @field_validator("conf_dir")
    @classmethod
    def _is_configuration(cls, directory: Path | None) -> Path | None:
        return None if directory is None else check_conf_dir(directory)

    @field_validator("principal")
    @classmethod
    def _is_principal(cls, name: str | None) -> str | None:
        return None if name is None else check_principal(name)

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        if (self.principal is None) != (self.keytab is None):
            raise ValueError("hadoop.principal and hadoop.keytab need each other")
        if self.principal is not None and self.user is not None:
            raise ValueError("hadoop.user is for clusters without Kerberos; with hadoop.principal, remove it")
        if self.principal is not None and self.conf_dir is not None:
            check_kerberos(self.conf_dir)
        _ = self.resolved_principal
        return self

    @property
    def resolved_principal(self) -> str | None:
        """The principal as the keytab has it, with its realm; ValueError if it has none."""
        if self.principal is None or self.keytab is None:
            return None
        try:
            return find_principal(self.keytab, resolve_host(self.principal))
        except ValueError as error:
            if f"/{HOST}" not in self.principal:
                raise
            text = f"{error}. {HOST} is this machine's name, as DNS or /etc/hosts gives it; hadoop.principal may name"
            raise ValueError(f"{text} another host instead") from None
