"""Keyed tables as the engines read them: for each table `yes`, or what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import parser

import firn
from tests.integration.engines import flink, spark, trino
from tests.integration.engines.duck import duckdb
from tests.integration.engines.iceberg_go import run_go
from tests.integration.engines.keyed_answers import Sample
from tests.integration.engines.keyed_gaps import ENGINES, Engine
from tests.integration.engines.python_engines import run_file
from tests.spark_fixtures import ServerProcess

Verdicts = dict[str, str]
"""By identifier, joined by dots."""
LIBRARIES = ("PyIceberg", "Polars", "Daft", "chdb")
SLOW = ("Spark 3.5", "Flink")
OF_VECTORS = ("v3", "v2", "evo3", "spec", "hive2")
"""The kinds of tables that engines which read vectors might read otherwise in v3."""
KNOWN = "one of the engine's known errors"
REFUSED = (spark.Refused, trino.Refused, flink.Refused)


def list_questioned(engine: str, version: str, samples: Sequence[Sample]) -> list[Sample]:
    """The tables, and the bases of those that the engine is excused from reading.

    Two tables show that an engine refuses vectors. Slow engines that read them are asked in v2 what every kind needs,
    and in v3 what vectors change.
    """
    gaps, fails = ENGINES[engine].gaps, ENGINES[engine].vectors is not None
    if version == "3" and (fails or engine in SLOW):
        versions = ("v3", "v2") if fails else OF_VECTORS
        return [sample for sample in samples if sample.name in versions]
    excused = {kind for gap in gaps for kind in gap.kinds} | ({"v3"} if fails else set())
    return [*samples, *(sample.base() for sample in samples if sample.name in excused)]


def list_expected(engine: str, version: str, samples: Sequence[Sample]) -> Verdicts:
    """The verdicts that `keyed_gaps` promises, errors as they are there."""
    return {".".join(sample.identifier): _expect(ENGINES[engine], version, sample) for sample in samples}


def shorten(engine: str, version: str, verdicts: Verdicts) -> Verdicts:
    """The verdicts; of errors, the part that `keyed_gaps` knows.

    A base may have two reasons for an error, of which the engine meets one first.
    """
    known = ENGINES[engine]
    gaps = (*known.gaps, *([known.gap_in_v3] if known.gap_in_v3 is not None and version == "3" else []))
    errors = [error for error in (known.vectors, *(gap.error for gap in gaps)) if error is not None]
    shortened = {}
    for name, verdict in verdicts.items():
        error = next((e for e in errors if verdict.startswith("error: ") and e in verdict), None)
        shortened[name] = verdict if error is None else KNOWN if name.endswith(".base") else f"error: {error}"
    return shortened


def read_by_sql(
    samples: Sequence[Sample], ask: Callable[[str], list[Any]], name: Callable[[Sample], str], text: str = "VARCHAR"
) -> Verdicts:
    """By an engine that runs statements one by one. `name` gives a table's name, `text` is the engine's type."""

    def try_to(statement: str) -> list[Any] | str:
        try:
            return ask(statement)
        except REFUSED as error:
            return str(error)

    return {
        ".".join(sample.identifier): _judge_sql(
            sample, try_to(sample.select(name(sample), text)), try_to(sample.count(name(sample)))
        )
        for sample in samples
    }


def read_by_duckdb(samples: Sequence[Sample], server: ServerProcess) -> Verdicts:
    attach = (
        f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none', "
        "SUPPORT_NESTED_NAMESPACES true)"
    )
    statements = [s for sample in samples for s in (sample.select(nested(sample)), sample.count(nested(sample)))]
    _, _, *answers = duckdb(attach, "SET TimeZone = 'UTC'", *statements)
    pairs = zip(samples, answers[::2], answers[1::2], strict=True)
    return {".".join(sample.identifier): _judge_sql(sample, rows, counts) for sample, rows, counts in pairs}


def read_by_libraries(
    samples_by_library: Mapping[str, Sequence[Sample]], server: ServerProcess, directory: Path
) -> dict[str, Verdicts]:
    """By libraries of Python, each asked for tables of its own, in one process: the verdicts of each."""
    tasks = {library: [sample.task() for sample in samples] for library, samples in samples_by_library.items()}
    program = Path(__file__).with_name("library_reads.py")
    input_json = json.dumps({"url": server.url, "tables": tasks})
    answers: Mapping[str, Any] = json.loads(run_file(program, directory=directory, input_text=input_json))
    return {
        library: {(name := ".".join(sample.identifier)): sample.judge(**answers[library][name]) for sample in samples}
        for library, samples in samples_by_library.items()
    }


def read_by_go(samples: Sequence[Sample], server: ServerProcess) -> Verdicts:
    answers = run_go(server.url, tables=[{**sample.task(), "filters": _filters_of(sample)} for sample in samples])
    return {(name := ".".join(sample.identifier)): sample.judge(**answers["tables"][name]) for sample in samples}


def read_by_firn(samples: Sequence[Sample], server: ServerProcess) -> Verdicts:
    """By `client.scan`."""
    with firn.connect(server.url) as client:
        return {".".join(sample.identifier): _scan(client, sample) for sample in samples}


def nested(sample: Sample, catalog: str = "lake", quote: str = '"') -> str:
    """The table's name where a nested namespace is a schema with dots in its name."""
    *namespace, name = sample.identifier
    return f"{catalog}.{quote}{'.'.join(namespace)}{quote}.{name}"


def _expect(engine: Engine, version: str, sample: Sample) -> str:
    if sample.is_base:
        return KNOWN
    error = engine.find_error(sample.name, version)
    return "yes" if error is None else f"error: {error}"


def _filters_of(sample: Sample) -> dict[str, Any]:
    """The filters as REST catalogs have them."""
    parsed = {name: parser.parse(condition.sql) for name, condition in sample.filters.items()}
    return {name: json.loads(expression.model_dump_json()) for name, expression in parsed.items()}


def _scan(client: firn.Client, sample: Sample) -> str:
    table = ".".join(sample.identifier)

    def totals(**scan: Any) -> list[int]:
        rows = client.scan(table, **scan).to_arrow()
        return [len(rows), pc.sum(rows["qty"]).as_py()]

    rows = [list(row.values()) for row in client.scan(table, columns=sample.columns).to_arrow().to_pylist()]
    filtered = {name: totals(filter=condition.sql) for name, condition in sample.filters.items()}
    return sample.judge(rows, {"all": [len(rows), 0], "sum": totals(columns=["qty"]), **filtered})


def _judge_sql(sample: Sample, rows: list[Any] | str, counts: list[Any] | str) -> str:
    if isinstance(counts, str):
        return sample.judge(rows, dict.fromkeys(sample.expected(), counts))
    return sample.judge(rows, {question: [n, total] for question, n, total in counts})
