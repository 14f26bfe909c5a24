"""A real Hive Metastore on Derby, built from PySpark's own jars.

    with EmbeddedMetastore(Path("firn-data/metastore"), port=9083) as metastore:
        metastore.uri          # thrift://127.0.0.1:9083

The metastore needs no password and listens only on 127.0.0.1. Its tables are in its data directory and survive
restarts.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from firn.embedded.errors import DataDirUnusable
from firn.embedded.hive_service import MAIN_CLASS, read_gateway, serve, start_service
from firn.embedded.ports import LOOPBACK, METASTORE_PORT, is_open
from firn.embedded.process import GuardedProcess
from firn.embedded.pyspark_jars import pyspark_jars
from firn.embedded.service import EmbeddedService

ANSWER_SECONDS = 5

# Logs go to standard error, because the gateway prints its port and token to standard output.
LOG_SETTINGS = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p [%t] %c{2}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class EmbeddedMetastore(EmbeddedService):
    """A Hive Metastore in a JVM of its own, with a Derby database in its directory."""

    name = "The Hive Metastore"
    owner = "A metastore"
    data_owner = "the metastore's data"
    log_name = "metastore.log"
    pipes_stdout = True

    def __init__(
        self,
        data_dir: Path,
        port: int = METASTORE_PORT,
        *,
        heap_mib: int = 512,
        start_seconds: float = 90,
        locks: bool = False,
    ) -> None:
        """`port` 0 chooses a free port; with `locks`, clients can take Hive's locks. Nothing happens before start()."""
        super().__init__(data_dir, port, heap_mib=heap_mib, start_seconds=start_seconds)
        self._locks = locks

    @property
    def uri(self) -> str:
        """The value for `hive.metastore.uris`."""
        return f"thrift://{LOOPBACK}:{self.port}"

    @property
    def warehouse(self) -> Path:
        """The directory of databases and tables without a location of their own."""
        return self.data_dir / "warehouse"

    def _prepare(self) -> None:
        if ":" in str(self.data_dir):
            # Derby takes the text before a colon for a protocol: it creates such a database and never opens it again.
            raise DataDirUnusable(
                f"{self.data_dir} cannot hold the metastore's data: Derby allows no colon in its path."
            )

    def _command(self, java: Path) -> list[str]:
        self._write_settings()
        return [
            str(java),
            f"-Xmx{self._heap_mib}m",
            "-XX:+DisplayVMOutputToStderr",  # the log gets the reason of a failed start
            "-Djava.net.preferIPv4Stack=true",
            "-Dlog4j2.disable.jmx=true",  # its beans need classes that PySpark does not bring
            # Hive would log through LMAX Disruptor, which PySpark does not bring either.
            "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.ClassLoaderContextSelector",
            f"-Dderby.system.home={self.data_dir}",
            "-cp",
            f"conf:{self._jars()}",
            *MAIN_CLASS,
        ]

    def _jars(self) -> str:
        return f"{pyspark_jars()}/*"

    def _settings(self) -> dict[str, str]:
        return {
            "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=metastore_db;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.connectionPoolingType": "HikariCP",  # the default, BoneCP, does not come with PySpark
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(self.warehouse),
        }

    def _write_settings(self) -> None:
        properties = "".join(
            f"  <property><name>{name}</name><value>{escape(value)}</value></property>\n"
            for name, value in self._settings().items()
        )
        conf = self.data_dir / "conf"
        conf.mkdir(exist_ok=True)
        (conf / "hive-site.xml").write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")
        (conf / "log4j2.properties").write_text(LOG_SETTINGS, encoding="utf-8")

    def _wait(self, process: GuardedProcess, give_up: float) -> None:
        gateway = read_gateway(process.stdout, give_up=give_up)
        if gateway is None:
            raise self._make_start_error(process)
        seconds = max(1.0, give_up - time.monotonic())
        serve(gateway, self.port, seconds=seconds, log=self.log, start=self._start_service)
        super()._wait(process, give_up)

    def _start_service(self, jvm: Any, port: int) -> None:
        start_service(jvm, port, locks=self._locks)

    def _does_answer(self) -> bool:
        return does_answer(self.port)


class MetastoreSession:
    """A context manager with a client of the metastore on this machine.

    It is not a generator, because `contextlib` changes exceptions, and the client's are read-only.
    """

    def __init__(self, port: int, *, seconds: float = 60) -> None:
        """The connection opens on entry."""
        socket = TSocket(LOOPBACK, port)
        socket.setTimeout(seconds * 1000)
        self._transport = TBufferedTransport(socket)

    def __enter__(self) -> Client:
        self._transport.open()
        return Client(TBinaryProtocol(self._transport))

    def __exit__(self, *_: object) -> None:
        self._transport.close()


def does_answer(port: int) -> bool:
    """Whether a metastore on this machine answers a call. An open port alone does not prove that."""
    if not is_open(port):  # checked first, because thrift logs each refused connection as an error
        return False
    try:
        with MetastoreSession(port, seconds=ANSWER_SECONDS) as client:
            client.get_all_databases()
    except (TException, OSError):
        return False
    return True
