"""`python -m tests.jvm_classes FILE`: archive the classes that Spark loads in the tests, for JVMs that start later.

A Spark that runs for a short time spends half of it on loading and verifying twenty thousand classes. A JVM with the
archive (`-XX:SharedArchiveFile`) maps them instead. A JVM with another class path or version ignores the archive.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.keyed_tables import KeyedTable, a_worker
from tests.spark_fixtures import running_server, shared_spark

DUMP_SECONDS = 180
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def main() -> int:
    file = Path(sys.argv[1]).absolute()
    unfinished = file.with_suffix(".unfinished")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options -XX:ArchiveClassesAtExit={unfinished} pyspark-shell"
    with TemporaryDirectory() as scratch:
        _work(Path(scratch))
    _end_jvm()
    unfinished.replace(file)
    return 0


def _work(scratch: Path) -> None:
    """Use Spark as most tests do: write, read, merge, alter and query."""
    with running_server(scratch / "data") as server:
        keyed = {"firn.primary-key": "id"}
        table = KeyedTable(server, a_worker(server.url), "id BIGINT, part STRING, v STRING", "part", **keyed)
        for mode in ("rewrite", "vectors"):
            table.upsert((1, "p", "a"), (2, "q", "b"), (3, None, mode))
            table.delete((2,), columns="id BIGINT")
            table.rows()
            table.run("merge", mode=mode)
        server.spark.sql(f"ALTER TABLE {table.name}.base ADD COLUMN more INT")
        server.spark.sql("CREATE TABLE lake.db.plain (id INT, v STRING) USING iceberg")
        server.spark.sql("INSERT INTO lake.db.plain VALUES (1, 'a'), (2, 'b')")
        server.spark.sql("MERGE INTO lake.db.plain t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
        counted = "SELECT v, count(*) FROM lake.db.plain GROUP BY v ORDER BY v"
        server.rows(counted)
        for setting, value in COMPILED.items():  # as optimizers in their own processes do
            server.spark.conf.set(setting, value)
        server.rows(counted)
        table.run("rewrite")
        table.run("expire")


def _end_jvm() -> None:
    """End the JVM, which writes the archive as it ends. PySpark would not wait for that."""
    session = shared_spark()
    gateway = session.sparkContext._gateway
    assert gateway is not None
    session.stop()
    atexit.unregister(session.stop)  # the session has stopped already
    gateway.proc.stdin.close()
    assert gateway.proc.wait(DUMP_SECONDS) == 0


if __name__ == "__main__":
    sys.exit(main())
