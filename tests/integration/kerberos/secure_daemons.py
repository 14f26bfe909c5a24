"""A secure HDFS of separate processes, each of which may be killed and frozen; everybody works as the user `firn`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from server.kerberos.gssapi import acquire_ticket
from tests.integration.hdfs.daemons import Daemons
from tests.integration.kerberos.cluster import HDFS, KERBEROS, secure_nodes
from tests.integration.kerberos.realm import NAME, Realm

USER = f"firn/users@{NAME}"
"""The principal of Hive's users and of optimizers; HDFS and the metastore call it `firn`."""
_SHELL = "org.apache.hadoop.fs.FsShell"


@contextmanager
def secure_daemons(directory: Path) -> Iterator[tuple[Realm, Daemons]]:
    """Start a realm and an HDFS, in whose root directory everybody may write. Until the end this process is `firn`."""
    (directory / "realm").mkdir(parents=True)
    realm = Realm(directory / "realm")
    try:
        hdfs = _make_daemons(directory / "hdfs", realm)
        with pytest.MonkeyPatch.context() as patch:
            for name, text in _act_as_user(realm, hdfs).items():
                patch.setenv(name, text)
            try:
                _start(hdfs)
                yield realm, hdfs
            finally:
                hdfs.stop()
    finally:
        realm.stop()


def _make_daemons(directory: Path, realm: Realm) -> Daemons:
    """Nodes and their superuser share a principal; the latter's tools read a cache of tickets."""
    realm.add(HDFS)
    keytab = realm.export("hdfs.keytab", HDFS)
    return Daemons(
        directory,
        own_settings=secure_nodes(keytab),
        host="localhost",
        core=KERBEROS,
        java=(realm.java,),
        administrator={"KRB5CCNAME": str(realm.directory / "hdfs.tickets")},
    )


def _act_as_user(realm: Realm, hdfs: Daemons) -> dict[str, str]:
    realm.add(USER)
    own = realm.environment | realm.client(realm.export("users.keytab", USER))
    return own | {"HADOOP_CONF_DIR": str(hdfs.conf_dir), "JAVA_TOOL_OPTIONS": realm.java}


def _start(hdfs: Daemons) -> None:
    keytab = hdfs.own_settings["dfs.namenode.keytab.file"]
    acquire_ticket(HDFS, {"ccache": hdfs.administrator["KRB5CCNAME"], "client_keytab": f"FILE:{keytab}"})
    hdfs.format()
    hdfs.start(*hdfs.name_nodes)
    hdfs.wait_for_answer("nn1")
    hdfs.run_tool(_SHELL, "-chmod", "1777", "/")
    hdfs.start(*hdfs.data_nodes)
    hdfs.wait()
