"""Queries that may append: their result over new rows alone is what the whole result gains."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from firn.pipelines.append_queries import check_append
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import parse_query

GOOD = (
    "select id, v + 1 as w from s where v > 1",
    "select id, v from s order by v",
    "select s.id, d.city from s join d on s.k = d.k",
    "select s.id, d.city from d join s on s.k = d.k",
    "select s.id, d.city from s left join d on s.k = d.k",
    "select s.id, d.city, e.city as other from d left join d as e on d.city = e.k join s on s.k = d.k",
    "select s.id from s, d where s.k = d.k",
    "select s.id from s left semi join d on s.k = d.k",
    "select s.id from s left anti join d on s.k = d.k",
    "select id from s where exists (select 1 from d where d.k = s.k)",
    "select id from s where k not in (select k from d where k is not null)",
    "select id, (select max(city) from d) as top from s",
    "select s.id, x.n from s join (select k, count(*) as n from d group by k) x on s.k = x.k",
    "select id, v from s where v > 2 union all select id, v * 2 from s where v < 2",
    "with a as (select id, k from s where v > 0) select a.id, d.city from a join d using (k)",
    "with d as (select id, k from s) select id from d",
    "select id from (select id, k from s) x where k = 1",
)
BAD = {
    "select k, count(*) as n from s group by k": "an aggregate over a stream",
    "select count(*) as n from s": "an aggregate over a stream",
    "select distinct k from s": "DISTINCT over a stream",
    "select id from s limit 3": "LIMIT over a stream",
    "select id, rank() over (partition by k order by v) as r from s": "a window function over a stream",
    "select id from s qualify row_number() over (partition by k order by v) = 1": "QUALIFY over a stream",
    "select a.id, b.id as o from s a join s b on a.k = b.k": "two streams are joined",
    "select d.k, s.id from d left join s on d.k = s.k": "LEFT JOIN may change or remove earlier rows: its other side",
    "select d.k, s.id from s right join d on d.k = s.k": "RIGHT JOIN may change or remove",
    "select d.k, s.id from s full join d on d.k = s.k": "FULL JOIN may change or remove",
    "select d.k from d left anti join s on d.k = s.k": "JOIN may change or remove",
    "select k from d where exists (select 1 from s where d.k = s.k)": "reads no stream, so each run",
    "select id from s where not exists (select 1 from s x where x.k = s.k and x.v > s.v)": "a stream in a subquery",
    "select id, (select max(v) from s) as top from s": "a stream in a subquery",
    "select id from s union select k from s": "UNION over a stream",
    "select id from s except select k from d": "EXCEPT over a stream",
    "select id from s union all select k from d": "a branch of UNION ALL reads no stream",
    "select n from (select k, count(*) as n from s group by k) x": "an aggregate over a stream",
    "with x as (select distinct k from s) select k from x": "DISTINCT over a stream",
    "with recursive r as (select k from s union all select k + 1 from r where k < 3) select k from r": "recursive",
    "select id from s tablesample (10 percent)": "over a stream depends on other rows",
    "select city from d": "reads no stream",
}
S = [(1, 1, 0), (2, 1, 3), (3, 2, 2), (4, None, 1)]
NEW = [(5, 1, 1), (6, 3, 5), (7, 2, 3), (2, 1, 3)]
D = [(1, 7), (3, 8), (None, 9), (7, 1)]


@pytest.mark.parametrize("sql", GOOD)
def test_what_may_append_gives_the_same_rows_as_the_whole(sql: str) -> None:
    check_append(parse_query(sql), ["s"])
    text = parse_query(sql).sql("duckdb")
    before, new, after = (compute(text, rows) for rows in (S, NEW, [*S, *NEW]))
    assert sorted([*before, *new], key=repr) == sorted(after, key=repr)


def compute(sql: str, rows: list[Any]) -> list[Any]:
    connection = duckdb.connect()
    connection.execute("create table s (id int, k int, v int); create table d (k int, city int)")
    connection.executemany("insert into s values (?, ?, ?)", rows)
    connection.executemany("insert into d values (?, ?)", D)
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("sql", BAD)
def test_other_queries_are_refused_with_the_reason(sql: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        check_append(parse_query(sql), ["s"])
    assert BAD[sql] in refused.value.message
    assert refused.value.line == 1
