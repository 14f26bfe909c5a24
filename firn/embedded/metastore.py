"""A real Hive Metastore on Derby, built from PySpark's own jars.

    with EmbeddedMetastore(Path("firn-data/metastore"), port=9083) as metastore:
        metastore.uri          # thrift://127.0.0.1:9083

The metastore needs no password and listens only on 127.0.0.1. Its tables are in its data directory and survive
restarts.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from firn.embedded.directory import lock_directory, prepare_directory
from firn.embedded.errors import DataDirUnusable, StartFailed
from firn.embedded.hive_service import MAIN_CLASS, read_gateway, serve, start_service
from firn.embedded.ports import LOOPBACK, METASTORE_PORT, free_port, is_open, require_free
from firn.embedded.process import GuardedProcess, make_early_end_error, read_last_lines, require_java
from firn.embedded.pyspark_jars import pyspark_jars

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


class EmbeddedMetastore:
    """One metastore process and its data directory.

    The process ends with stop(), with this object, or with this process, also if that is killed.
    """

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
        self.data_dir = data_dir.absolute()
        self.port = port
        self._heap_mib = heap_mib
        self._start_seconds = start_seconds
        self._locks = locks
        self._process: GuardedProcess | None = None

    @property
    def uri(self) -> str:
        """The value for `hive.metastore.uris`."""
        return f"thrift://{LOOPBACK}:{self.port}"

    @property
    def warehouse(self) -> Path:
        """The directory of databases and tables without a location of their own."""
        return self.data_dir / "warehouse"

    @property
    def log(self) -> Path:
        """The output of the process, over all its starts."""
        return self.data_dir / "metastore.log"

    @property
    def running(self) -> bool:
        """Whether the process runs; it may not answer yet."""
        return self._process is not None and self._process.exit_status is None

    def start(self) -> Self:
        """Start it, and return once it has answered a call; about five seconds.

        Raises an EmbeddedError, and leaves no process then. A start of a running metastore changes nothing.
        """
        if self.running:
            return self
        self.stop()  # a dead process still holds its pipes
        java = require_java()
        if ":" in str(self.data_dir):
            # Derby takes the text before a colon for a protocol: it creates such a database and never opens it again.
            raise DataDirUnusable(
                f"{self.data_dir} cannot hold the metastore's data: Derby allows no colon in its path."
            )
        prepare_directory(self.data_dir, owner="the metastore's data")
        self._write_settings()
        give_up = time.monotonic() + self._start_seconds
        with ExitStack() as undo:
            with lock_directory(self.data_dir, owner="A metastore") as lock:
                self.port = self.port or free_port()
                require_free(self.port, owner="The Hive Metastore")
                self._process = GuardedProcess(
                    self._command(java.path), log=self.log, cwd=self.data_dir, keep_open=[lock], pipe_stdout=True
                )
                undo.callback(self.stop)
            self._serve(self._process, give_up)
            undo.pop_all()
        return self

    def stop(self) -> None:
        """End it, and wait for the end. A stop of a stopped metastore changes nothing."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _command(self, java: Path) -> list[str]:
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

    def _serve(self, process: GuardedProcess, give_up: float) -> None:
        gateway = read_gateway(process.stdout, give_up=give_up)
        if gateway is None:
            raise self._make_start_error(process)
        seconds = max(1.0, give_up - time.monotonic())
        serve(gateway, self.port, seconds=seconds, log=self.log, start=self._start_service)
        while not self._does_answer():
            if process.exit_status is not None or time.monotonic() > give_up:
                raise self._make_start_error(process)
            time.sleep(0.1)

    def _start_service(self, jvm: Any, port: int) -> None:
        start_service(jvm, port, locks=self._locks)

    def _does_answer(self) -> bool:
        return does_answer(self.port)

    def _make_start_error(self, process: GuardedProcess) -> StartFailed:
        status = process.wait_for_end(1)  # its output ends shortly before the process
        if status is not None:
            return make_early_end_error("The Hive Metastore", status, self.log)
        return StartFailed(
            f"The Hive Metastore did not answer within {self._start_seconds:.0f} s. "
            f"The end of {self.log}:\n{read_last_lines(self.log)}"
        )


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
