"""The user and the HDFS tokens of Spark's Java, for the client of HDFS in Python, which asks Java for neither.

A container of YARN has the tokens of its start in a file. Spark renews tokens in Java's memory only, so Python would
lose HDFS when the first ones expire, after a week by default. Without Kerberos, Python would work as the user of the
container's process, which on most clusters is `yarn`, and not as the user who has submitted the application.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from firn.hdfs.configuration import CONF_DIR, TOKENS, USER, read_configuration, split_location
from firn.hdfs.mounts import list_mounted
from firn.spark.errors import reason
from firn.spark.java import iterate

log = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
"""The pause between two looks at Java's tokens. Spark renews them when three quarters of their lifetime have passed."""
_SENT_FILES = Path("__spark_conf__", "__hadoop_conf__")
"""The cluster's files of the machine of spark-submit, which Spark sends to each container of YARN."""
_TOKEN = "HDFS_DELEGATION_TOKEN"  # noqa: S105 -- a kind of token
_RPC_ADDRESS = "dfs.namenode.rpc-address"


@contextmanager
def share_identity(spark: SparkSession) -> Iterator[None]:
    """Let Python call HDFS as Java does, also after Spark has renewed its tokens.

    It sets environment variables of this process. The file of tokens is readable by this user only, and ends with the
    block.
    """
    if not os.environ.get(CONF_DIR) and _SENT_FILES.is_dir():
        os.environ[CONF_DIR] = str(_SENT_FILES.absolute())
    users: Any = _jvm(spark).org.apache.hadoop.security.UserGroupInformation
    if not users.isSecurityEnabled():
        os.environ[USER] = str(users.getCurrentUser().getShortUserName())
        yield
        return
    ended = threading.Event()
    with TemporaryDirectory(prefix="firn-tokens-") as directory:
        tokens = _TokenFile(spark, Path(directory, "tokens"))
        tokens.refresh()
        threading.Thread(target=tokens.refresh_until, args=(ended,), daemon=True, name="tokens").start()
        try:
            yield
        finally:
            ended.set()


class _TokenFile:
    """Java's tokens in the file that the client of HDFS reads for each connection."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self._path = spark, path
        self._written = b""

    def refresh_until(self, ended: threading.Event) -> None:
        while not ended.wait(REFRESH_SECONDS):
            try:
                self.refresh()
            except (Py4JError, OSError) as error:
                if not ended.is_set():
                    log.warning("the tokens of HDFS stay as they are: %s", reason(error))

    def refresh(self) -> None:
        """Write the file if the tokens have changed. Without tokens, Python has the tickets of the environment."""
        content = self._serialize()
        if content in (b"", self._written):
            return
        beside = self._path.with_name("next")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        beside.replace(self._path)  # a reader never sees half of it
        self._written = content
        os.environ[TOKENS] = str(self._path)

    def _serialize(self) -> bytes:
        """The tokens of HDFS in Hadoop's format; empty if Java has none."""
        jvm = _jvm(self._spark)
        written: Any = jvm.org.apache.hadoop.security.Credentials()
        user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
        for token in iterate(user.getCredentials().getAllTokens()):
            if str(token.getKind()) == _TOKEN:
                for service in (str(token.getService()), *self._list_names(str(token.getService()))):
                    copy = token.copyToken()
                    copy.setService(jvm.org.apache.hadoop.io.Text(service))
                    written.addToken(jvm.org.apache.hadoop.io.Text(service), copy)
        if not written.numberOfTokens():
            return b""
        buffer = jvm.java.io.ByteArrayOutputStream()
        written.writeTokenStorageToStream(jvm.java.io.DataOutputStream(buffer))
        return bytes(buffer.toByteArray())

    def _list_names(self, service: str) -> list[str]:
        conf = self._spark.sparkContext.getConf()
        named = (conf.get("spark.kerberos.access.hadoopFileSystems", "") or "").split(",")
        directory = os.environ.get(CONF_DIR)
        return list_names(service, read_configuration(Path(directory) if directory else None), named)


def list_names(service: str, properties: Mapping[str, str], file_systems: Iterable[str]) -> list[str]:
    """The name nodes, as `HOST:PORT` in the cluster's files, whose address a token has as its service.

    Hadoop writes the IP address into a token, and the client in Python looks for the name that a location has.
    """
    address, _, port = service.rpartition(":")
    named = {text for name, text in properties.items() if name.startswith(_RPC_ADDRESS)}
    locations = (properties.get("fs.defaultFS", ""), *list_mounted(properties), *file_systems)
    named |= {split_location(text)[0].partition("://")[2] for text in locations}
    pairs = [text.rpartition(":") for text in sorted(named - {service})]
    return [f"{host}:{port}" for host, _, own_port in pairs if host and own_port == port and _has(host, address)]


def _has(host: str, address: str) -> bool:
    """Whether the host has this IP address; a host that nobody knows has none."""
    with suppress(OSError, UnicodeError):
        return address in {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return False


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
