"""A server's clients of the secure cluster in the process of the tests, with a principal of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hdfs_native import Client

from firn.hdfs import calls
from server.kerberos.keytab import find_principal
from server.kerberos.tickets import KeytabTickets
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.security import Authentication, MetastoreSecurity
from tests.integration.kerberos.cluster import SecureCluster
from tests.integration.kerberos.realm import NAME


class Clients:
    """A server's clients of the cluster, in this process and with a principal of their own."""

    def __init__(self, cluster: SecureCluster, directory: Path) -> None:
        self._cluster, self._directory = cluster, directory
        self._before = {name: os.environ[name] for name in ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")}

    def close(self) -> None:
        os.environ.update(self._before)

    def act_as(self, principal: str, keytab: Path) -> KeytabTickets:
        """Do what the server does when it starts."""
        tickets = KeytabTickets(find_principal(keytab, principal), keytab, self._directory / "krb5cc")
        tickets.prepare()
        return tickets

    @contextmanager
    def acting_as(self, principal: str, keytab: Path) -> Iterator[KeytabTickets]:
        """Act as another principal until the end of the block."""
        before = {name: os.environ[name] for name in self._before}
        try:
            yield self.act_as(principal, keytab)
        finally:
            os.environ.update(before)

    def ask_metastore(self, tickets: KeytabTickets, principal: str = f"hive/_HOST@{NAME}") -> list[str]:
        """Ask over a new connection."""
        security = MetastoreSecurity(authentication=Authentication.KERBEROS, principal=principal, tickets=tickets)
        metastore = HiveMetastore(MetastoreSettings(uris=(self._cluster.metastore.uri,), security=security))
        try:
            return metastore.databases()
        finally:
            metastore.close()

    def ask_hdfs(self, uri: str | None = None) -> list[str]:
        """Ask over a new connection, at another address of the cluster if one is named."""
        client: Client = calls.make_client(uri or self._cluster.hdfs.uri, self._cluster.conf_dir)
        return [status.path for status in calls.iterate(lambda: client.list_status("/"))]
