"""A secure cluster: a realm, an HDFS and a metastore of Hive 2.3 that demand its tickets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from catalog.errors import Unavailable
from firn.embedded.hive_service import serve_handler
from firn.embedded.metastore import EmbeddedMetastore
from firn.embedded.ports import LOOPBACK
from firn.hdfs import calls, files
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.security import Authentication, MetastoreSecurity
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.kerberos.realm import NAME, Realm

HDFS, HIVE = f"hdfs/localhost@{NAME}", f"hive/localhost@{NAME}"
KERBEROS = {
    "hadoop.security.authentication": "kerberos",
    "hadoop.security.authorization": "true",
    # Users of services are called by the first part of their principal.
    "hadoop.security.auth_to_local": "RULE:[2:$1]\nDEFAULT",
    "dfs.namenode.kerberos.principal": HDFS,
    "dfs.data.transfer.protection": "privacy",
}
PROXIES = {
    f"hadoop.proxyuser.{user}.{scope}": "*" for user in ("hive", "firn") for scope in ("hosts", "users", "groups")
}
TOKEN_SECONDS = 480
"""The lifetime of the tokens with which applications on YARN call HDFS; a week is the default."""
SECURITY = MetastoreSecurity(authentication=Authentication.KERBEROS, principal=f"hive/_HOST@{NAME}")


class SecureMetastore(EmbeddedMetastore):
    """A metastore that lets in who has a ticket, and encrypts."""

    def __init__(self, data_dir: Path, realm: Realm, keytab: Path) -> None:
        super().__init__(data_dir, port=0, start_seconds=180)
        self._realm, self._keytab = realm, keytab

    def _command(self, java: Path) -> list[str]:
        program, *rest = super()._command(java)
        return [program, self._realm.java, *rest]

    def _settings(self) -> dict[str, str]:
        secure = {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": f"hive/_HOST@{NAME}",
            "hive.metastore.kerberos.keytab.file": str(self._keytab),
        }
        return super()._settings() | secure

    def _write_settings(self) -> None:
        super()._write_settings()
        write_configuration(self.data_dir / "conf", KERBEROS | {"hadoop.rpc.protection": "privacy"})

    def _start_service(self, jvm: Any, port: int) -> None:
        """Do what HiveMetaStore.startMetaStore does with SASL, but bind to loopback, and without delegation tokens."""
        hive = jvm.org.apache.hadoop.hive
        socket = jvm.org.apache.thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(LOOPBACK, port))
        conf = hive.conf.HiveConf()
        server = hive.shims.ShimLoader.getHadoopThriftAuthBridge().createServer(str(self._keytab), HIVE)
        bare = getattr(hive.metastore, "HiveMetaStore$HMSHandler")("Firn's metastore", conf, False)
        handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler(bare, conf)
        transports = server.createTransportFactory(hive.metastore.MetaStoreUtils.getMetaStoreSaslProperties(conf))
        calls_of = getattr(hive.metastore.api, "ThriftHiveMetastore$Processor")(handler)
        serve_handler(jvm, socket, handler, transports, server.wrapProcessor(calls_of))

    def _does_answer(self) -> bool:
        client = HiveMetastore(MetastoreSettings(uris=(self.uri,), security=SECURITY))
        try:
            return bool(client.databases())
        except Unavailable:
            return False
        finally:
            client.close()


@dataclass(frozen=True)
class SecureHdfs:
    """A realm and an HDFS. This process acts as HDFS's superuser."""

    realm: Realm
    hdfs: MiniCluster
    conf_dir: Path

    @property
    def settings(self) -> dict[str, str]:
        """The environment of a server on the HDFS, without its principal and keytab."""
        return {
            **self.realm.environment,
            "JAVA_TOOL_OPTIONS": self.realm.java,
            "FIRN_WAREHOUSE": f"{self.hdfs.uri}/warehouse",
            "FIRN_HADOOP__CONF_DIR": str(self.conf_dir),
        }


@dataclass(frozen=True)
class SecureCluster(SecureHdfs):
    """A metastore besides."""

    metastore: SecureMetastore

    @property
    def settings(self) -> dict[str, str]:
        """The environment of a server of the cluster, without its principal and keytab."""
        return {
            **super().settings,
            "FIRN_METASTORE": self.metastore.uri,
            "FIRN_HIVE__AUTHENTICATION": "kerberos",
            "FIRN_HIVE__KERBEROS_PRINCIPAL": f"hive/_HOST@{NAME}",
        }


@contextmanager
def secure_hdfs(directory: Path) -> Iterator[SecureHdfs]:
    """Start it; a user `firn` may write below /warehouse, and read all other directories."""
    for name in ("realm", "hdfs", "conf"):
        (directory / name).mkdir()
    realm, conf_dir = Realm(directory / "realm"), directory / "conf"
    realm.add(HDFS)
    keytab = realm.export("hdfs.keytab", HDFS)
    write_configuration(conf_dir, KERBEROS)
    with pytest.MonkeyPatch.context() as patch:
        for name, text in (realm.environment | realm.client(keytab) | {"HADOOP_CONF_DIR": str(conf_dir)}).items():
            patch.setenv(name, text)
        hdfs = MiniCluster(directory / "hdfs", host="localhost", settings=secure_nodes(keytab), java=[realm.java])
        try:
            hdfs.wait()
            _make_warehouse(hdfs.uri)
            yield SecureHdfs(realm, hdfs, conf_dir)
        finally:
            hdfs.stop()
            realm.stop()


@contextmanager
def add_metastore(hdfs: SecureHdfs, directory: Path) -> Iterator[SecureCluster]:
    """Start a metastore beside the HDFS."""
    hdfs.realm.add(HIVE)
    with SecureMetastore(directory / "metastore", hdfs.realm, hdfs.realm.export("hive.keytab", HIVE)) as metastore:
        yield SecureCluster(hdfs.realm, hdfs.hdfs, hdfs.conf_dir, metastore)


def secure_nodes(keytab: Path) -> dict[str, str]:
    """The settings of nodes with Kerberos."""
    return {
        **KERBEROS,
        **PROXIES,
        "hadoop.rpc.protection": "authentication,privacy",  # the latter for the metastore, where it is the only one
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.delegation.token.max-lifetime": str(TOKEN_SECONDS * 1000),
        "ignore.secure.ports.for.testing": "true",
        "dfs.namenode.keytab.file": str(keytab),
        "dfs.datanode.keytab.file": str(keytab),
        "dfs.datanode.kerberos.principal": HDFS,
    }


def _make_warehouse(uri: str) -> None:
    for name in ("hive", "warehouse"):
        files.make_directories(f"{uri}/{name}")
    client, path = calls.connect(f"{uri}/warehouse")
    client.set_owner(path, "firn", "firn")


def write_configuration(directory: Path, properties: dict[str, str]) -> None:
    """Write a core-site.xml."""
    items = "".join(
        f"<property><name>{name}</name><value>{escape(text)}</value></property>\n" for name, text in properties.items()
    )
    (directory / "core-site.xml").write_text(f"<configuration>\n{items}</configuration>\n", encoding="utf-8")
