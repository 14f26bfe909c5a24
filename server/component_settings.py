"""Translates the server's settings into the options of single adapters and services."""

from __future__ import annotations

import shutil
import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from catalog.access.privileges import RoleName
from catalog.ports.credentials import Keys
from catalog.scan.plan import ScanLimits
from firn.spark.jars import spark_conf
from server.files.read_limits import ReadLimits
from server.hive_settings import HiveSettings
from server.identity.oidc import OidcSettings
from server.kerberos.tickets import CACHE, KeytabTickets
from server.metastore.locks import Locking, LockSettings
from server.metastore.registry import MetastoreWays
from server.metastore.security import Authentication, MetastoreSecurity
from server.reading_settings import ReadingSettings
from server.service.access.credential_vending import StaticKeys
from server.service.access.tokens import TokenTimes
from server.service.jobs.leases import LeaseTimes
from server.service.optimizers.fleet_values import LaunchEnvironment
from server.settings import (
    AccessSettings,
    LeaseSettings,
    ScanSettings,
    Settings,
    StorageSettings,
    is_loopback,
)


def make_read_limits(reading: ReadingSettings) -> ReadLimits:
    """Make the limits of reads from storage."""
    return ReadLimits(
        metadata_bytes=reading.metadata_bytes,
        manifest_bytes=reading.manifest_bytes,
        footer_bytes=reading.footer_bytes,
        seconds=reading.seconds,
    )


def make_scan_limits(scan: ScanSettings) -> ScanLimits:
    """Make the limits of server-side scan planning."""
    return ScanLimits(
        inline_files=scan.inline_files,
        task_files=scan.task_files,
        manifests=scan.manifests,
        plan_seconds=scan.plan_seconds,
    )


def make_lease_times(lease: LeaseSettings) -> LeaseTimes:
    """Make the durations of jobs' leases and the number of attempts."""
    return LeaseTimes(
        lasts=timedelta(seconds=lease.seconds),
        beat=timedelta(seconds=lease.heartbeat_seconds),
        max_attempts=lease.max_attempts,
    )


def make_metastore_ways(hive: HiveSettings, tickets: KeytabTickets | None = None) -> MetastoreWays:
    """Make the security, time-outs and locks of connections to metastores."""
    security = MetastoreSecurity(
        tls=hive.tls,
        ca_file=hive.ca_file,
        authentication=Authentication(hive.authentication),
        user=hive.user,
        password=None if hive.password is None else hive.password.get_secret_value(),
        principal=hive.kerberos_principal,
        tickets=tickets,
    )
    return MetastoreWays(
        connect_timeout_seconds=hive.connect_timeout_seconds,
        read_timeout_seconds=hive.read_timeout_seconds,
        connections=hive.pool_size,
        security=security,
        locks=LockSettings(locking=Locking(hive.locks), wait_seconds=hive.lock_timeout_seconds, user=hive.user),
    )


def make_tickets(settings: Settings) -> KeytabTickets | None:
    """Make the ticket of the server's principal; None if none is set. Two of them share one ticket."""
    principal, keytab = settings.hadoop.resolved_principal, settings.hadoop.keytab
    if principal is None or keytab is None:
        return None
    return KeytabTickets(principal, keytab.absolute(), settings.data_dir.absolute() / CACHE)


def make_static_keys(storage: StorageSettings) -> StaticKeys:
    """Make the static keys that the server vends; None for a key that is not set."""

    def keys(key_id: str | None, secret: SecretStr | None) -> Keys | None:
        if key_id is None or secret is None:
            return None
        return Keys(access_key_id=key_id, secret_access_key=secret.get_secret_value())

    return StaticKeys(
        read=keys(storage.read_key_id, storage.read_key_secret),
        write=keys(storage.write_key_id, storage.write_key_secret),
    )


def make_oidc_settings(settings: AccessSettings, issuer: str) -> OidcSettings:
    """Make the settings of the OpenID Connect issuer."""
    return OidcSettings(
        issuer=issuer,
        audience=settings.oidc_audience or "",
        name_claim=settings.oidc_name_claim,
        roles_claim=settings.oidc_roles_claim,
        roles={group: RoleName(role) for group, role in settings.oidc_roles.items()},
    )


def make_token_times(settings: AccessSettings) -> TokenTimes:
    """Make the lifetimes of tokens."""
    return TokenTimes(
        access=timedelta(seconds=settings.access_token_seconds),
        default=timedelta(days=settings.token_days),
        longest=timedelta(days=settings.max_token_days),
        exchanges=timedelta(seconds=settings.exchange_seconds),
    )


def make_launch_environment(settings: Settings) -> LaunchEnvironment:
    """Make the programs and addresses with which the server launches optimizers."""
    token = settings.optimizers.token
    # Located without an import, because the server starts no JVM and runs no job.
    spec = find_spec("optimizer")
    locations = [] if spec is None else list(spec.submodule_search_locations or ())
    spark_submit = _locate_spark_submit(settings.optimizers.spark_submit)
    return LaunchEnvironment(
        server=settings.own_address,
        python=sys.executable,
        spark_submit=spark_submit,
        spark_home=_locate_spark_home(spark_submit),
        application=f"{locations[0]}/__main__.py" if locations else "optimizer",
        directory=str(settings.data_dir.absolute() / "optimizers"),
        node_python=f"python{sys.version_info.major}.{sys.version_info.minor}",
        iceberg=spark_conf(),
        is_local_address=settings.optimizers.server is None and _is_local(settings.host),
        token=None if token is None else token.get_secret_value(),
        needs_token=settings.access.enabled,
        local=settings.optimizers.local,
    )


def _locate_spark_submit(program: str) -> str:
    """The program itself. If the path has none of its name, the one that is installed beside the server's Python."""
    beside = Path(sys.executable).with_name(program)
    is_name = "/" not in program
    return str(beside) if is_name and shutil.which(program) is None and beside.is_file() else program


def _locate_spark_home(spark_submit: str) -> str | None:
    """PySpark's directory, if the program is the one that pip installed with it beside the server's Python."""
    located = shutil.which(spark_submit)
    spec = find_spec("pyspark")
    if located is None or spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent) if Path(located).parent == Path(sys.executable).parent else None


def _is_local(host: str) -> bool:
    return host in ("0.0.0.0", "::") or is_loopback(host)  # noqa: S104 -- compares, and listens on nothing
