"""A real Hive Metastore on Derby, out of PySpark's own jars.

    with EmbeddedMetastore(Path("firn-data/metastore"), port=9083) as metastore:
        metastore.uri          # thrift://127.0.0.1:9083

The metastore asks for no password and listens on 127.0.0.1 only.  Tables live in its data directory and survive
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

from firn.embedded.directory import exclusive, prepared
from firn.embedded.errors import DataDirUnusable, StartFailed
from firn.embedded.hive_service import MAIN_CLASS, announced, serve, start_service
from firn.embedded.ports import LOOPBACK, METASTORE_PORT, free_port, is_open, require_free
from firn.embedded.process import GuardedProcess, ended_early, last_lines, require_java
from firn.embedded.pyspark_jars import pyspark_jars

ANSWER_SECONDS = 5

# To standard error: standard output is for the gateway's announcement.
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

    The process ends with stop(), with this object, and with this process, also when that is killed.
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
        """`port` 0 takes a free one; with `locks` Hive's can be taken.  Nothing is touched before start()."""
        self.data_dir = data_dir.absolute()
        self.port = port
        self._heap_mib = heap_mib
        self._start_seconds = start_seconds
        self._locks = locks
        self._process: GuardedProcess | None = None

    @property
    def uri(self) -> str:
        """What goes into `hive.metastore.uris`."""
        return f"thrift://{LOOPBACK}:{self.port}"

    @property
    def warehouse(self) -> Path:
        """Where databases and tables without a location of their own lie."""
        return self.data_dir / "warehouse"

    @property
    def log(self) -> Path:
        """What the process prints, over all its starts."""
        return self.data_dir / "metastore.log"

    @property
    def running(self) -> bool:
        """Whether the process is there; whether it answers is another question."""
        return self._process is not None and self._process.exit_status is None

    def start(self) -> Self:
        """Start it and return once it has answered a call; about five seconds.

        Raises a kind of EmbeddedError, and then nothing of it is left running.  Starting a running one changes nothing.
        """
        if self.running:
            return self
        self.stop()  # one that has died still holds its pipes
        java = require_java()
        if ":" in str(self.data_dir):
            # Derby takes what stands before a colon for a protocol: it makes such a database and never opens it again.
            raise DataDirUnusable(
                f"{self.data_dir} cannot hold the metastore's data: Derby allows no colon in its path."
            )
        prepared(self.data_dir, what="the metastore's data")
        self._write_settings()
        give_up = time.monotonic() + self._start_seconds
        with ExitStack() as undo:
            with exclusive(self.data_dir, what="A metastore") as lock:
                self.port = self.port or free_port()
                require_free(self.port, what="The Hive Metastore")
                self._process = GuardedProcess(
                    self._command(java.path), log=self.log, cwd=self.data_dir, keep_open=[lock], pipe_stdout=True
                )
                undo.callback(self.stop)
            self._serve(self._process, give_up)
            undo.pop_all()
        return self

    def stop(self) -> None:
        """End it and wait until it is gone.  Stopping a stopped one changes nothing."""
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
            "-XX:+DisplayVMOutputToStderr",  # why it cannot start belongs into the log
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
        gateway = announced(process.stdout, give_up=give_up)
        if gateway is None:
            raise self._silent(process)
        seconds = max(1.0, give_up - time.monotonic())
        serve(gateway, self.port, seconds=seconds, log=self.log, start=self._start_service)
        while not answers(self.port):
            if process.exit_status is not None or time.monotonic() > give_up:
                raise self._silent(process)
            time.sleep(0.1)

    def _start_service(self, jvm: Any, port: int) -> None:
        start_service(jvm, port, locks=self._locks)

    def _silent(self, process: GuardedProcess) -> StartFailed:
        status = process.ended_within(1)  # its output ends a moment before it does
        if status is not None:
            return ended_early("The Hive Metastore", status, self.log)
        return StartFailed(
            f"The Hive Metastore did not answer within {self._start_seconds:.0f} s. "
            f"The end of {self.log}:\n{last_lines(self.log)}"
        )


class Asking:
    """A client of the metastore on this machine; it hangs up without a word.

    No generator: the client's exceptions cannot be changed, which `contextlib` tries as they pass through one.
    """

    def __init__(self, port: int, *, seconds: float = 60) -> None:
        """Nothing is opened before it is entered."""
        socket = TSocket(LOOPBACK, port)
        socket.setTimeout(seconds * 1000)
        self._transport = TBufferedTransport(socket)

    def __enter__(self) -> Client:
        self._transport.open()
        return Client(TBinaryProtocol(self._transport))

    def __exit__(self, *_: object) -> None:
        self._transport.close()


def answers(port: int) -> bool:
    """Whether a metastore on this machine answers a call, which an open port alone does not tell."""
    if not is_open(port):  # asked first because thrift logs each refused connection as an error
        return False
    try:
        with Asking(port, seconds=ANSWER_SECONDS) as client:
            client.get_all_databases()
    except (TException, OSError):
        return False
    return True
