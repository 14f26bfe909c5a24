"""Hive itself, of version 4.0: its compiler, readers and writers, in a JVM of its own that py4j gives orders.

No HiveServer2: that adds sessions and a wire to the driver which runs here.  Jobs run as MapReduce in the same process.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

from firn.embedded.hive_service import MAIN_CLASS, read_gateway
from firn.embedded.metastore import LOG_SETTINGS
from firn.embedded.ports import LOOPBACK
from firn.embedded.process import GuardedProcess, make_early_end_error, require_java
from firn.embedded.pyspark_jars import pyspark_jars
from tests.integration.metastore.later import ENGINE, LaterMetastore, home

START_SECONDS = 90
_VERSION = ENGINE.removesuffix("-engine")
_WITHOUT = ("hive-", "datanucleus-", "javax.jdo-", "spark-", "scala-", "parquet-", "orc-", "avro-", "antlr-runtime")
"""PySpark's jars that are of another Hive, or that Hive carries itself."""
_PACKAGES = (
    *("lang", "lang.reflect", "util", "util.concurrent", "util.concurrent.atomic", "util.regex"),
    *("io", "net", "nio", "math", "text", "time"),
)
"""Of Java, into which Hive looks; Java 17 closes them."""
_OPENED = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _PACKAGES]


class RealMetastore(LaterMetastore):
    """The metastore of a whole Hive: it understands expressions by which Hive asks for partitions to drop."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(_VERSION, data_dir)

    def _command(self, java: Path) -> list[str]:
        program, *arguments = super()._command(java)
        return [program, *_OPENED, *arguments]

    def _jars(self) -> str:
        return f"{home(ENGINE)}/*:{super()._jars()}"

    def _settings(self) -> dict[str, str]:
        proxy = "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore"
        outside = {"metastore.warehouse.external.dir": f"{self.data_dir}/external"}
        return super()._settings() | outside | {"metastore.expression.proxy": proxy}


class RealHive:
    """One Hive at a metastore, with one session."""

    def __init__(self, metastore_uri: str, directory: Path, *, zone: str) -> None:
        """Nothing is started before it is entered; `zone` is where its machine stands."""
        self._directory, self._zone = directory, zone
        self._settings = {
            "hive.metastore.uris": metastore_uri,
            "hive.metastore.warehouse.dir": f"{directory}/managed",
            "hive.metastore.warehouse.external.dir": f"{directory}/warehouse",
            "hive.execution.engine": "mr",
            "mapreduce.framework.name": "local",
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": f"{directory}/hadoop",
            "hive.exec.scratchdir": f"{directory}/scratch",
            "hive.exec.local.scratchdir": f"{directory}/local",
            "hive.exec.submit.local.task.via.child": "false",
            "hive.exec.dynamic.partition.mode": "nonstrict",
        }

    def __enter__(self) -> Self:
        conf = self._directory / "conf"
        conf.mkdir(parents=True)
        properties = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
            for name, value in self._settings.items()
        )
        (conf / "hive-site.xml").write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")
        (conf / "log4j2.properties").write_text(LOG_SETTINGS, encoding="utf-8")
        log = self._directory / "hive.log"
        self._process = GuardedProcess(self._command(), log=log, cwd=self._directory, pipe_stdout=True)
        gateway = read_gateway(self._process.stdout, give_up=time.monotonic() + START_SECONDS)
        if gateway is None:
            status = self._process.wait_for_end(1) or 0
            self._process.stop()
            raise make_early_end_error("Hive", status, log)
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                address=LOOPBACK, port=gateway.port, auth_token=gateway.token, enable_memory_management=False
            )
        )
        self._jvm: Any = self._gateway.jvm
        self._hive = self._jvm.org.apache.hadoop.hive
        self._conf = self._hive.conf.HiveConf()
        self._hive.ql.session.SessionState.start(self._hive.ql.session.SessionState(self._conf))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gateway.shutdown()
        self._process.stop()

    def set(self, **settings: str) -> None:
        """Settings of the session; a double underscore stands for a dot, as in `hive__fetch__task__conversion`."""
        for name, value in settings.items():
            self._conf.set(name.replace("__", "."), value)

    def sql(self, *statements: str) -> list[tuple[str, ...]]:
        """Run statements; the rows of the last one as Hive's own client prints them, in an order of their own."""
        lines: list[str] = []
        for statement in statements:
            lines = self._run(statement)
        return sorted(tuple(line.split("\t")) for line in lines)

    def _run(self, statement: str) -> list[str]:
        driver = self._hive.ql.DriverFactory.newDriver(self._conf)
        try:
            driver.run(statement)
            lines: list[str] = []
            while driver.getResults(batch := self._jvm.java.util.ArrayList()):
                lines.extend(batch)
            return lines
        except Py4JJavaError as error:
            raise AssertionError(f"{statement}: {error.java_exception.getMessage()}") from error
        finally:
            driver.close()
            driver.destroy()

    def _command(self) -> list[str]:
        newer = [str(jar) for jar in pyspark_jars().glob("commons-lang3-*.jar")]  # than what Hive's own jar carries
        kept = [str(jar) for jar in sorted(pyspark_jars().glob("*.jar")) if not jar.name.startswith(_WITHOUT)]
        return [
            str(require_java().path),
            "-Xmx1g",
            f"-Duser.timezone={self._zone}",
            "-Djava.net.preferIPv4Stack=true",
            "-Dlog4j2.disable.jmx=true",
            "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.ClassLoaderContextSelector",
            *_OPENED,
            "-cp",
            ":".join(["conf", *newer, f"{home(ENGINE)}/*", f"{home(_VERSION)}/*", *kept]),
            *MAIN_CLASS,
        ]
