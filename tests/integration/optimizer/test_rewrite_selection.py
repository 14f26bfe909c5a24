"""The rule that dry runs, Health, Layout and planning go by chooses the files that Iceberg's own planner chooses."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from catalog.files.bin_packing import AppliedDeletes, RewriteRule, Selection
from catalog.files.file_layout import LayoutCounter
from catalog.files.manifest_entries import ManifestEntry
from catalog.iceberg.reading import current_snapshot
from catalog.keyed.file_tasks import RewritePolicy, build_rewrite_task
from catalog.names import TableName
from firn.protocol.tasks.files import RewriteTask
from firn.spark.java import iterate
from optimizer.jobs.rewrite import _Rewrite
from server.files.manifest_reading import StoredManifests
from server.files.storage import Storage
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
_ids = count(1)
MIB = 2**20
PARTITIONS = ("a", "b", "c", "__HIVE_DEFAULT_PARTITION__")
SIZES = (1, 20, 60, 77, 95, 96, 100, 128, 200, 230, 231, 500)
POLICIES = [
    RewritePolicy(min_files=5),
    RewritePolicy(min_files=2),
    RewritePolicy(min_files=2, small_file_bytes=300 * MIB),
    RewritePolicy(min_files=3, max_delete_ratio=0.0),
    RewritePolicy(min_files=5, apply_deletes=True),
    RewritePolicy(everything=True),
]


def a_table(server: RunningServer) -> tuple[str, Any]:
    """A table whose files nobody has written: planning opens none."""
    name = f"lake.db.selected{next(_ids)}"
    server.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    server.spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p STRING) USING iceberg PARTITIONED BY (p) "
        "TBLPROPERTIES ('format-version' = '2', 'firn.optimize.enabled' = 'false')"
    )
    jvm: Any = server.spark._jvm
    return name, jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(server.spark._jsparkSession, name)


def commit(jvm: Any, table: Any, random: Random, files: list[tuple[str, int, str]]) -> None:
    """Some data files, some delete files, and now and then another partition spec."""
    table.refresh()
    spec, append = table.spec(), table.newAppend()
    for _ in range(random.randint(1, 9)):
        path, partition = f"file:/nowhere/{next(_ids)}.parquet", random.choice(PARTITIONS)
        builder = jvm.org.apache.iceberg.DataFiles.builder(spec).withPath(path).withRecordCount(100)
        builder = builder.withFileSizeInBytes(random.choice(SIZES) * MIB + random.choice((0, 0, -1)))
        append.appendFile(_placed(builder, spec, partition).build())
        files.append((path, spec.specId(), partition))
    append.commit()
    for _ in range(random.randint(0, 3)):
        path, _, partition = random.choice([file for file in files if file[1] == spec.specId()])
        deletes = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes()
        deletes = deletes.withPath(f"file:/nowhere/d{next(_ids)}.parquet").withFileSizeInBytes(9)
        deletes = deletes.withRecordCount(random.choice((1, 15, 20, 60)))
        if random.random() < 0.7:
            deletes = deletes.withReferencedDataFile(path)
        table.newRowDelta().addDeletes(_placed(deletes, spec, partition).build()).commit()
    if random.random() < 0.25:
        change = table.updateSpec()
        (change.removeField("p") if spec.isPartitioned() else change.addField("p")).commit()


def _placed(builder: Any, spec: Any, partition: str) -> Any:
    return builder.withPartitionPath(f"p={partition}") if spec.isPartitioned() else builder


def of_iceberg(jvm: Any, table: Any, task: dict[str, Any]) -> set[frozenset[str]]:
    """The groups of Iceberg's planner under the options that the job gives it."""
    rewrite = _Rewrite(cast("Any", SimpleNamespace()), RewriteTask.model_validate(task), table)
    options = jvm.java.util.HashMap()
    for key, value in rewrite._options().items():
        options.put(key, value)
    planner = jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(
        table, jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue(), table.currentSnapshot().snapshotId(), True
    )
    planner.init(options)
    return {
        frozenset(str(scan.file().location()) for scan in iterate(group.fileScanTasks()))
        for group in iterate(planner.plan().groups())
    }


def of_firn(metadata: Any, task: dict[str, Any]) -> set[frozenset[str]]:
    """The groups by the rule."""
    manifests, head = StoredManifests(Storage()), current_snapshot(metadata)
    assert head is not None
    files = [file for line in manifests.lines(metadata, head) for file in manifests.files(metadata, line)]
    deletes, counter = AppliedDeletes(), LayoutCounter(metadata, {}, 0)
    for file in files:
        if file.content:
            deletes.add(file)
    selection: Selection[ManifestEntry] = Selection(
        RewriteRule.of_task(task), deletes, spec_id=counter.spec_id, width=counter.width
    )
    for file in files:
        if not file.content:
            selection.add(file, file)
    return {frozenset(file.location for file in group.items) for group in selection.groups()}


@pytest.mark.parametrize("seed", range(4))
def test_any_layout_is_chosen_from_as_icebergs_planner_chooses(server: RunningServer, seed: int) -> None:
    random, jvm = Random(seed), cast("Any", server.spark)._jvm
    _, table = a_table(server)
    files: list[tuple[str, int, str]] = []
    for _ in range(6):
        commit(jvm, table, random, files)
        table.refresh()
        location = str(table.operations().current().metadataFileLocation())
        metadata = orjson.loads(Path(location.removeprefix("file:").replace("///", "/")).read_bytes())
        for policy in POLICIES:
            task = build_rewrite_task(TableName(("db",), "t"), policy).model_dump()
            assert of_firn(metadata, task) == of_iceberg(jvm, table, task), policy
