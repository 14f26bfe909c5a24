"""A Hudi Streamer's configuration becomes a folder that plans, with a report; hostile files do no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.errors import Invalid
from firn.pipelines import import_hudi, plan_pipeline, read_folder
from firn.pipelines.imported import Import
from firn.pipelines.table_plans import TablePlan
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import TriggerKind
from tests.command_line import Command

COLUMNS = {
    "raw.trip": {"trip": "bigint", "driver": "bigint", "day": "date", "fare": "decimal(10,2)", "at": "timestamp"},
    "dim.driver": {"driver": "bigint", "city": "int"},
}
KEYED = """
# trips of the day
hoodie.datasource.write.recordkey.field=trip
hoodie.datasource.write.precombine.field=at
hoodie.datasource.hive_sync.database=mart
hoodie.datasource.hive_sync.table=clean
hoodie.deltastreamer.source.hoodieincr.path=hdfs://nn:8020/lake/raw.db/trip
"""


def write(folder: Path, text: str, name: str = "clean.properties", **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for other, content in {name: text, **files}.items():
        (folder / other).write_text(content)
    return folder / name


def import_text(tmp_path: Path, text: str, name: str = "clean.properties", **files: str) -> Import:
    result = import_hudi(write(tmp_path / "old", text, name, **files))
    result.write(tmp_path / "new")
    return result


def plan(tmp_path: Path) -> TablePlan:
    pipeline = read_folder(tmp_path / "new")
    assert pipeline.problems == ()
    (table,) = plan_pipeline(pipeline, COLUMNS.get)
    assert table.problem is None
    return table


def gaps(result: Import) -> str:
    return "\n".join(gap.text for gap in result.gaps)


def test_key_ordering_field_partition_and_source_are_taken_over(tmp_path: Path) -> None:
    result = import_text(tmp_path, KEYED + "hoodie.datasource.write.partitionpath.field=day\n")
    table = plan(tmp_path)
    assert (table.definition.name, table.definition.key) == ("mart.clean", ("trip",))
    assert table.definition.partitioned_by == ("day",)
    assert table.plan is not None
    assert [source.name for source in table.plan.inputs] == ["raw.trip"]
    assert table.is_incremental
    assert "PARTITION BY trip ORDER BY at DESC" in result.statements["mart.clean"]
    assert [gap.text.partition(":")[0] for gap in result.gaps] == ["its source hdfs"]


def test_the_newest_row_of_a_key_is_chosen_after_the_transformers(tmp_path: Path) -> None:
    """Hudi orders the rows that it writes: of a query that hides rows, others of the key remain."""
    sql = "hoodie.streamer.transformer.sql=SELECT trip, at, fare FROM <SRC> a WHERE fare > 0\n"
    text = import_text(tmp_path, KEYED + sql).statements["mart.clean"]
    assert text.index("fare > 0") < text.index("QUALIFY")
    assert plan(tmp_path).is_incremental


def test_groups_are_unique_and_need_no_ordering(tmp_path: Path) -> None:
    sql = "hoodie.streamer.transformer.sql=SELECT driver, sum(fare) AS fares FROM <SRC> GROUP BY driver\n"
    text = KEYED.replace("field=trip", "field=driver").replace("field=at", "field=")
    result = import_text(tmp_path, text + sql)
    assert "QUALIFY" not in result.statements["mart.clean"]
    assert "for each batch alone" in gaps(result)
    assert plan(tmp_path).is_incremental


def test_without_an_ordering_field_the_report_says_so(tmp_path: Path) -> None:
    result = import_text(tmp_path, KEYED.replace("field=at", "field="))
    assert "QUALIFY" not in result.statements["mart.clean"]
    assert "no ordering field" in gaps(result)


def test_a_chain_of_transformers_reads_one_after_the_other(tmp_path: Path) -> None:
    text = KEYED + (
        "hoodie.streamer.transformer.class=a:x.SqlQueryBasedTransformer,b:x.SqlFileBasedTransformer\n"
        "hoodie.streamer.transformer.sql.a=SELECT * FROM <SRC> WHERE fare > 0\n"
        "hoodie.streamer.transformer.sql.file.b=s3://conf/b.sql\n"
    )
    script = (
        "CACHE TABLE paid AS SELECT * FROM <SRC>; CREATE TEMPORARY VIEW two AS SELECT * FROM paid; SELECT * FROM two;"
    )
    result = import_text(tmp_path, text, **{"b.sql": script})
    assert list(result.statements) == ["clean_1", "paid", "two", "mart.clean"]
    assert "`clean_1`" in result.statements["paid"]
    assert plan(tmp_path).is_incremental


def test_nothing_runs_without_a_java_transformer(tmp_path: Path) -> None:
    """The view that stands for it has no definition, so a plan does not know the columns."""
    result = import_text(tmp_path, KEYED + "hoodie.streamer.transformer.class=org.example.Mask\n")
    assert "the transformer org.example.Mask is Java code: write it as the temporary view `clean_1`" in gaps(result)
    (table,) = plan_pipeline(read_folder(tmp_path / "new"), COLUMNS.get)
    assert table.unknown == ("mart.clean_1",)


def test_inserts_append(tmp_path: Path) -> None:
    import_text(tmp_path, KEYED + "hoodie.datasource.write.operation=bulk_insert\n")
    definition = plan(tmp_path).definition
    assert (definition.key, definition.mode, definition.output.streams) == ((), OutputMode.APPEND, ("raw.trip",))


SCRIPT = r"""#!/bin/bash
spark-submit --master yarn --class org.apache.hudi.utilities.deltastreamer.HoodieDeltaStreamer bundle.jar \
  --target-table clean --op UPSERT --props file:///etc/hudi/base.properties --continuous \
  --min-sync-interval-seconds 60 --source-ordering-field at --checkpoint 20260101 \
  --hoodie-conf 'hoodie.deltastreamer.transformer.sql=SELECT trip, at FROM <SRC>' # the columns that we need
"""


def test_a_script_is_read_with_its_properties(tmp_path: Path) -> None:
    result = import_text(tmp_path, SCRIPT, "start.sh", **{"base.properties": KEYED.replace("field=at", "field=")})
    trigger = plan(tmp_path).definition.trigger
    assert (trigger.kind, trigger.fresh_within_seconds) == (TriggerKind.FRESH, 60)
    assert "SELECT\n    trip,\n    at" in result.statements["mart.clean"]
    assert "the first run computes all rows" in gaps(result)


def test_each_table_of_a_streamer_of_many_is_imported(tmp_path: Path) -> None:
    text = (
        "hoodie.streamer.ingestion.tablesToBeIngested=mart.a,mart.b\n"
        "hoodie.streamer.ingestion.mart.a.configFile=s3://c/a.properties\n"
        "hoodie.datasource.write.precombine.field=at\nhoodie.datasource.write.recordkey.field=trip\n"
    )
    own = "hoodie.streamer.source.hoodieincr.path=/lake/raw/trip\n"
    result = import_text(tmp_path, text, **{"a.properties": own, "mart_b_config.properties": own})
    assert list(result.statements) == ["mart.a", "mart.b"]
    assert read_folder(tmp_path / "new").problems == ()


REPORTED = {
    "hoodie.datasource.write.payload.class=org.example.Mine": "merges rows by Java code",
    "hoodie.datasource.write.partitionpath.field=at:TIMESTAMP": "are no columns",
    "hoodie.datasource.write.operation=insert_overwrite": "insert_overwrite has no counterpart",
    "hoodie.streamer.transformer.sql=SELECT *, _hoodie_is_deleted FROM <SRC>": "were deletes",
    "hoodie.streamer.transformer.sql=SELECT trip, _hoodie_commit_time FROM <SRC>": "which only tables of Hudi have",
    "hoodie.precommit.validators=x.SqlQueryEqualityPreCommitValidator": "SqlQueryEqualityPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries=select 1": "has no expected value",
    "hoodie.streamer.something.new=1": "hoodie.streamer.something.new has no counterpart",
    "hoodie.datasource.hive_sync.table=${TABLE}": "variable of the shell",
}


@pytest.mark.parametrize("line", REPORTED)
def test_what_has_no_counterpart_is_reported(line: str, tmp_path: Path) -> None:
    assert REPORTED[line] in gaps(import_text(tmp_path, f"{KEYED}{line}\n"))


def test_properties_of_files_and_jobs_are_not_reported(tmp_path: Path) -> None:
    lines = "hoodie.upsert.shuffle.parallelism=2\nhoodie.metadata.enable=true\nhoodie.compact.inline=true\nsecurity=x\n"
    assert len(import_text(tmp_path, KEYED + lines).gaps) == 1


def test_validators_of_single_values_are_taken_over(tmp_path: Path) -> None:
    query = "hoodie.precommit.validators.single.value.sql.queries=select count(*) from <TABLE_NAME> where trip < 0#0"
    import_text(tmp_path, KEYED + query)
    (validator,) = plan(tmp_path).definition.validators
    assert (validator.sql, validator.expected) == ("select count(*) from audited where trip < 0", "0")


HOSTILE_SQL = {
    "statements": "SELECT * FROM <SRC>; DROP TABLE raw.trip",
    "write": "INSERT INTO raw.trip SELECT * FROM <SRC>; SELECT * FROM <SRC>",
    "program": "SELECT reflect('java.lang.System', 'exit', 0) AS x FROM <SRC>",
    "file": "SELECT * FROM parquet.`/etc/secret` AS p JOIN <SRC>",
    "template": "SELECT '{{ 1 }}' AS x FROM <SRC>",
    "deep": "SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " AS x FROM <SRC>",
    "no SQL": "]]]] ''' select",
}


@pytest.mark.parametrize("name", HOSTILE_SQL)
def test_hostile_sql_is_left_out(name: str, tmp_path: Path) -> None:
    result = import_hudi(write(tmp_path / "old", f"{KEYED}hoodie.streamer.transformer.sql={HOSTILE_SQL[name]}\n"))
    assert result.statements == {}
    assert "it was not imported" in gaps(result)


@pytest.mark.parametrize("place", ["/etc/passwd", "../secret", "link", "file:///proc/self/environ", "", ".", ".."])
def test_only_files_beside_the_settings_are_read(place: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SELECT 'password' AS p FROM <SRC>")
    path = write(tmp_path / "old", f"{KEYED}hoodie.streamer.transformer.class=x.SqlFileBasedTransformer\n"
                 f"hoodie.streamer.transformer.sql.file={place}\n")  # fmt: skip
    (path.parent / "link").symlink_to(tmp_path / "secret")
    assert import_hudi(path).statements == {}


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "spark-submit 'open", "include=clean.properties\n", "spark-submit --class x y.jar", "\0=\0"],
    ids=["empty", "prose", "open quote", "endless", "no streamer", "zero"],
)
def test_what_configures_no_streamer_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        import_hudi(write(tmp_path / "old", text))


def test_hostile_names_stay_in_the_folder(tmp_path: Path) -> None:
    names = (
        KEYED.replace("=mart", "=../../x").replace("=clean", "=`; DROP TABLE a; --").replace("/raw.db/trip", "/../..")
    )
    import_text(tmp_path, names)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "new"}


def test_the_command_prints_the_report(tmp_path: Path) -> None:
    run, new, file = Command("http://127.0.0.1:9"), str(tmp_path / "new"), str(write(tmp_path / "old", KEYED))
    output = run("pipeline", "init", new, file, "--from", "hudi")
    assert output.out.splitlines()[-1] == f"{new} has 1 statement; 1 gap. See: firn pipeline validate {new}"
    columns = tmp_path / "columns.yml"
    columns.write_text(json.dumps(COLUMNS))
    assert run("pipeline", "validate", new, "--schema", str(columns)).code == 0
