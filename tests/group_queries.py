"""Queries over the tables of `pipeline_shapes` to whose counts and sums a run can add changes."""

from __future__ import annotations

import random
from typing import Final

from tests.pipeline_shapes import SCHEMA

GROUP_QUERIES: Final = {
    "counts": ("select k, count(*) n, count(v) c from f group by k", ["k"]),
    "sums": ("select k, g, count(*) n, sum(v) s from f group by k, g", ["k", "g"]),
    "extremes": ("select k, count(*) n, min(v) lo, max(v) hi from f group by k", ["k"]),
    "key is a part of the group": (
        "select f.id, d.city, count(*) n, sum(d.w) s from f join d on f.k = d.k group by f.id, d.city",
        ["id", "city"],
    ),
    "dimension": (
        (
            "select f.k, d.city, count(*) n, sum(f.v) s, max(f.t) hi from f join d on f.k = d.k "
            "where f.v <> 3 group by f.k, d.city"
        ),
        ["k", "city"],
    ),
    "three tables": (
        (
            "select c.region, f.g, count(*) n, sum(f.v) s, min(d.w) lo from f join d on f.k = d.k "
            "join c on c.city = d.city and c.region >= f.g group by c.region, f.g"
        ),
        ["region", "g"],
    ),
    "conditions": (
        (
            "select k, count(*) n, count(case when v > 4 then t end) c, sum(t) s from f "
            "where (v in (1, 2, 5) or g is null) and not t between 3 and 5 group by k"
        ),
        ["k"],
    ),
    "cross join": (
        "select f.g, c.region, count(*) n, sum(f.v) s from f cross join c group by f.g, c.region",
        ["g", "region"],
    ),
    "a constant counted": ("select k, count(1) n, sum(v) s from f group by k", ["k"]),
}
"""By name, with the key of the table."""


def make_group_query(chance: random.Random) -> tuple[str, list[str]]:
    """A random query and the key of its table."""
    tables = chance.sample(list(SCHEMA), chance.choice([1, 1, 2, 3]))
    columns, text = [f"{tables[0]}.{name}" for name in SCHEMA[tables[0]]], tables[0]
    for table in tables[1:]:
        own = [f"{table}.{name}" for name in SCHEMA[table]]
        text += f" join {table} on {chance.choice(columns)} = {chance.choice(own)}"
        columns += own
    if chance.random() < 0.5:
        text += f" where {chance.choice(columns)} {chance.choice(['<', '>=', '<>'])} {chance.randrange(5)}"
    keys = chance.sample(columns, min(len(columns), chance.choice([1, 2])))
    functions = [chance.choice(["sum", "count", "min", "max"]) for _ in range(chance.choice([1, 2, 3]))]
    measures = ["count(*)", *(f"{function}({chance.choice(columns)})" for function in functions)]
    outputs = [f"{key} as g{number}" for number, key in enumerate(keys)]
    outputs += [f"{measure} as m{number}" for number, measure in enumerate(measures)]
    return f"select {', '.join(outputs)} from {text} group by {', '.join(keys)}", [f"g{n}" for n in range(len(keys))]
