"""Random histories of a table's metadata."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates
from tests.catalog.iceberg.build import NOW_MS, a_table, part, spec, with_history
from tests.catalog.iceberg.random_requests import request

STEPS = 25
histories = st.tuples(st.integers(0, 2**32).map(Random), st.sampled_from([1, 2, 3]))


def after(table: Json, updates: list[Json], step: int) -> Json:
    """The table after the request; the table itself when it was refused."""
    try:
        return apply_updates(table, updates, now_ms=NOW_MS + step, previous_location=f"file:/{step}.json")
    except (Invalid, RequirementFailed):
        return table


def history(rng: Random, version: int) -> list[Json]:
    """Every state of a table that began with two snapshots."""
    states = [with_history(a_table(version, partition_spec=spec(part(2, "day", "day_day"))), 2)]
    for step in range(STEPS):
        states.append(after(states[-1], request(rng, states[-1]), step))
    return states
