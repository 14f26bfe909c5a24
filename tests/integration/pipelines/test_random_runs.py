"""Incremental runs give the rows of full ones after random commits to inputs of all kinds."""

from __future__ import annotations

import os
import random

import pytest

from optimizer.pipelines import table_run
from tests.integration.pipelines.pinned_runs import PinnedRuns
from tests.integration.pipelines.random_inputs import KINDS, RandomInput
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(900)]
ROUNDS = 13 if float(os.environ.get("SOAK_SECONDS", "0")) else 6
"""Of each kind; a round takes eleven seconds on two free CPUs."""
GROUPS = """SELECT f.k, d.day AS dim_day, count(*) AS n, sum(f.v) AS s, max(d.v) AS m FROM raw.{f} f
JOIN raw.{d} d ON f.k = d.id WHERE f.v < 8 AND f.k IS NOT NULL GROUP BY f.k, d.day"""
NEWEST = """SELECT id, v, w, r FROM (
  SELECT f.id, f.v, coalesce(d.v, -1) AS w, rank() OVER (PARTITION BY f.id ORDER BY f.seq, f.v) AS r,
    row_number() OVER (PARTITION BY f.id ORDER BY f.seq DESC, f.v, f.k, d.v, d.seq) AS n
  FROM raw.{f} f LEFT JOIN raw.{d} d ON f.k = d.id WHERE EXISTS (SELECT 1 FROM raw.{d} e WHERE e.day = f.day)
) x WHERE n = 1"""
PAIRS = """SELECT f.k, f.note, d.day AS dim_day FROM raw.{f} f LEFT JOIN raw.{d} d ON f.k = d.id
WHERE f.v < 7 AND f.k IS NOT NULL"""
QUERIES = {"groups": (GROUPS, ["k", "dim_day"]), "newest": (NEWEST, ["id"]), "pairs": (PAIRS, [])}
"""The last one has no key, and its rows come several times."""
CHOSEN = {kind: ("groups" if number % 2 else "newest", "pairs") for number, kind in enumerate(KINDS)}
"""Two queries for each kind of input: a table with a key, and one without."""


@pytest.fixture(autouse=True)
def _small_tables_take_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_run, "LEAST_ADDED_BYTES", 0)


def merge_with(server: RunningServer, table: str) -> None:
    """Have an optimizer merge the table, if anything is pending."""
    job = server.post(f"catalogs/lake/tables/{table}/jobs", {"kind": "merge", "options": {}})
    if server.get(f"jobs/{job['id']}")["outcome"] == "nothing to do":
        return
    worker = a_worker(server.url)
    assert worker.work_once(worker.api.register(**worker.about).id, wait_seconds=5)


def compact(server: RunningServer, table: str) -> None:
    """What a user does to a table without a key: no row changes, and all files do."""
    options = f"table => '{table}', options => map('rewrite-all', 'true')"
    server.spark.sql(f"CALL lake.system.rewrite_data_files({options})")


@pytest.mark.parametrize("kind", KINDS)
def test_incremental_equals_full(server: RunningServer, kind: str) -> None:
    chance = random.Random(f"runs of {kind}")
    names = {"f": f"f_{kind.replace(' ', '_')}", "d": f"d_{kind.replace(' ', '_')}"}
    others = [other for other in KINDS if other != kind]
    kinds = {"f": kind, "d": chance.choice(others)}
    inputs = [
        RandomInput(server, f"raw.{names[role]}", kinds[role], chance, lambda table: merge_with(server, table))
        for role in names
    ]
    runs = {
        name: PinnedRuns(
            server,
            f"mart.{name}_{names['f']}",
            query.format(**names),
            [table.name for table in inputs],
            key=key,
            partitioned_by=(key or ["dim_day"])[:1] if chance.random() < 0.5 else [],
        )
        for name in CHOSEN[kind]
        for query, key in [QUERIES[name]]
    }
    modes = []
    for _ in range(ROUNDS):
        actions = [chance.choice(inputs).change() for _ in range(chance.randint(1, 3))]
        name = chance.choice(sorted(runs))
        result = runs[name].run()
        modes.append(result.mode)
        target, query = runs[name].target, QUERIES[name][0].format(**names)
        is_keyed = bool(QUERIES[name][1])
        columns = ", ".join(server.spark.table(f"lake.{target}{'.base' if is_keyed else ''}").columns)
        expected = server.rows(f"SELECT {columns} FROM ({query.replace('raw.', 'lake.raw.')})")
        assert server.rows(f"SELECT {columns} FROM lake.{target}") == expected, (kinds, name, actions, result)
        if chance.random() < 0.2:
            merge_with(server, target) if is_keyed else compact(server, target)
    assert modes.count("full") <= len(runs)
    assert modes.count("incremental") >= ROUNDS - len(runs) - 1
