"""Queries by name, one for each shape that a pipeline keeps incrementally; models and documentation use them."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = {
    "f": {"id": "int", "k": "int", "g": "int", "v": "int", "t": "int"},
    "d": {"k": "int", "city": "int", "w": "int"},
    "e": {"k": "int", "flag": "int"},
    "c": {"city": "int", "region": "int"},
}

SHAPES: Final = {
    "filter": "select id, k, v from f where v > 3",
    "projection": "select id, v * 2 + 1 as w, case when v > 5 then 'high' else 'low' end as band from f",
    "distinct": "select distinct k, g from f where v > 2",
    "group": ("select k, g, count(*) n, sum(v) s, min(v) lo, max(v) hi, count(distinct t) u from f group by k, g"),
    "group by all": "select k, g, sum(v) s from f group by all",
    "group by position": "select k, g % 2 as odd, sum(v) s from f group by 1, 2",
    "group by expression": "select k + 1 as kk, g % 2 as odd, sum(v) s from f group by k + 1, g % 2",
    "function of a group": "select k * 2 as double_k, sum(v) s from f group by k, g",
    "having": "select k, sum(v) s from f group by k having count(*) > 2",
    "case": (
        "select case when v > 5 then 'high' else 'low' end as band, count(*) n from f "
        "group by case when v > 5 then 'high' else 'low' end"
    ),
    "inner join": "select f.id, f.k, d.city, d.w from f join d on f.k = d.k where d.w > 1",
    "inner join group by dimension": (
        "select d.city, f.g, sum(f.v) s, count(*) n from f join d on f.k = d.k group by d.city, f.g"
    ),
    "inner join group by key": "select f.k, sum(f.v * d.w) s from f join d on f.k = d.k group by f.k",
    "inner join group by other key": "select d.k, sum(f.v * d.w) s from f join d on f.k = d.k group by d.k",
    "join using": "select k, sum(v) s, max(w) w from f join d using (k) group by k",
    "comma join": "select f.k, count(*) n from f, d where f.k = d.k and d.w > f.g group by f.k",
    "cross join": "select f.g, c.region, count(*) n from f cross join c group by f.g, c.region",
    "three tables": (
        "select c.region, f.g, sum(f.v * d.w) s from f join d on f.k = d.k join c on c.city = d.city "
        "group by c.region, f.g"
    ),
    "one key in three tables": (
        "select e.k, count(*) n, sum(d.w) s from f join d on f.k = d.k join e on d.k = e.k group by e.k"
    ),
    "self join": "select a.id, b.id as other from f a join f b on a.k = b.k and a.t < b.t",
    "self join group": "select a.g, count(*) n from f a join f b on a.k = b.t group by a.g",
    "left join": "select f.id, f.k, f.v, d.city from f left join d on f.k = d.k",
    "left join group by dimension": "select d.city, sum(f.v) s from f left join d on f.k = d.k group by d.city",
    "left join group by dimension key": "select d.k, count(*) n from f left join d on f.k = d.k group by d.k",
    "left join group by key": "select f.k, count(d.w) n from f left join d on f.k = d.k group by f.k",
    "left join coalesce": (
        "select coalesce(d.city, -1) as city, f.g, sum(f.v) s from f left join d on f.k = d.k "
        "group by coalesce(d.city, -1), f.g"
    ),
    "left join, is null": "select f.id, f.k from f left join d on f.k = d.k where d.k is null",
    "left join, dimension compared": (
        "select d.city, count(*) n from f left join d on f.k = d.k and d.city = d.w group by d.city"
    ),
    "left join, filtered": ("select d.k, count(*) n from f left join d on f.k = d.k where d.k = f.g group by d.k"),
    "left join, other condition": "select f.id, d.city from f left join d on f.k = d.k and d.w > f.g",
    "left join, constant condition": (
        "select f.g, d.city, count(*) n from f left join d on f.k = d.k and f.v > 4 group by f.g, d.city"
    ),
    "left chain": ("select f.id, c.region, d.city from f left join d on f.k = d.k left join c on d.city = c.city"),
    "left chain group": (
        "select c.region, count(*) n, sum(f.v) s from f left join d on f.k = d.k left join c on d.city = c.city "
        "group by c.region"
    ),
    "inner then left": (
        "select f.id, d.city, e.flag from f join d on f.k = d.k left join e on e.k = d.w and e.flag = 1"
    ),
    "left then inner": (
        "select c.region, count(*) n from f left join d on f.k = d.k join c on c.city = d.city group by c.region"
    ),
    "full join": "select coalesce(f.k, d.k) as k, f.v, d.city from f full join d on f.k = d.k",
    "full join using": "select k, f.v, city from f full join d using (k)",
    "full join group": (
        "select coalesce(f.k, d.k) as k, sum(f.v) s, max(d.w) w from f full join d on f.k = d.k "
        "group by coalesce(f.k, d.k)"
    ),
    "full join group by side": "select d.city, count(*) n from f full join d on f.k = d.k group by d.city",
    "full join, two values": (
        "select coalesce(f.k, d.k) as k, coalesce(d.city, f.g) as g, count(*) n from f "
        "full join d on d.k = f.k and f.g = d.city and f.v > d.w group by coalesce(f.k, d.k), coalesce(d.city, f.g)"
    ),
    "full then left": (
        "select c.region, count(*) n from f full join d on f.k = d.k left join c on d.city = c.city group by c.region"
    ),
    "full then inner": (
        "select c.region, count(*) n from f full join d on f.k = d.k join c on d.city = c.city group by c.region"
    ),
    "full join of derived tables": (
        "select coalesce(a.k, b.k) as k, a.n, b.m from (select k, count(*) n from f group by k) a "
        "full join (select k, sum(w) m from d group by k) b on a.k = b.k"
    ),
    "exists": "select id, k, v from f where exists (select 1 from e where e.k = f.k and e.flag = 1)",
    "not exists": "select f.k, sum(f.v) s from f where not exists (select 1 from e where e.k = f.k) group by f.k",
    "not exists, two columns": (
        "select f.g, sum(f.v) s from f where not exists (select 1 from e where e.k = f.k and e.flag = f.g) group by f.g"
    ),
    "exists over a join": (
        "select f.g, count(*) n from f where exists "
        "(select 1 from d join c on c.city = d.city where d.k = f.k and c.region = 1) group by f.g"
    ),
    "not exists over a join": (
        "select f.id from f where not exists (select 1 from d left join c on c.city = d.city "
        "where d.k = f.k and c.region is null)"
    ),
    "exists of itself": (
        "select f.id, f.v from f where not exists (select 1 from f f2 where f2.k = f.k and f2.t > f.t)"
    ),
    "exists with one name": (
        "select f.g, count(*) n from f where exists (select 1 from d f where f.city = 1) group by f.g"
    ),
    "nested exists": (
        "select f.k, count(*) n from f where exists (select 1 from d where d.k = f.k and exists "
        "(select 1 from c where c.city = d.city)) group by f.k"
    ),
    "in": "select g, count(*) n from f where k in (select k from e where flag = 1) group by g",
    "in, two columns": "select f.id, f.g from f where (k, g) in (select k, city from d)",
    "in, correlated": "select f.id, f.g from f where f.g in (select d.city from d where d.k = f.k and d.w > 1)",
    "in a grouped query": "select d.k, d.w from d where d.k in (select k from f group by k having sum(v) > 10)",
    "in a union": "select id, k from f where k in (select k from d where w > 2 union select k from e)",
    "semi join": "select f.g, sum(f.v) s from f left semi join d on f.k = d.k and d.w > 1 group by f.g",
    "anti join": "select f.g, sum(f.v) s from f left anti join d on f.k = d.k group by f.g",
    "join and exists": (
        "select d.city, count(*) n from f join d on f.k = d.k where exists (select 1 from e where e.k = d.w) "
        "group by d.city"
    ),
    "left join and not exists": (
        "select f.id, d.city from f left join d on f.k = d.k "
        "where not exists (select 1 from e where e.k = f.g and e.flag = d.w)"
    ),
    "window": (
        "select id, k, v, row_number() over (partition by k order by t, id, v, g) as r, "
        "sum(v) over (partition by k) as s from f"
    ),
    "named window": "select id, k, sum(v) over w as s from f window w as (partition by k order by t, id, v, g)",
    "two windows": "select k, g, v, sum(v) over (partition by k, g) as a, max(v) over (partition by k) as b from f",
    "window over join": "select f.id, d.city, count(*) over (partition by d.city) as n from f join d on f.k = d.k",
    "window over group": (
        "select k, g, sum(v) as s, rank() over (partition by k order by sum(v) desc) as r from f group by k, g"
    ),
    "latest per key": (
        "select k, v, t from (select k, v, t, row_number() over (partition by k order by t desc, id, v, g) as r "
        "from f) x where r = 1"
    ),
    "qualify": ("select k, g, v, id, t from f qualify row_number() over (partition by k, g order by t, id, v) = 1"),
    "qualify with exchanged names": (
        "select distinct a.c2 as c0, a.n as c1, a.c1 as c2 from (select t as c0, g as c1, k as c2, v as n from f) a "
        "qualify dense_rank() over (partition by a.n order by a.c0, a.c1, a.c2) <= 2"
    ),
    "qualify over group": (
        "select k, g, sum(v) as s from f group by k, g qualify sum(v) > avg(sum(v)) over (partition by k)"
    ),
    "stars": "select f.*, d.city from f join d on f.k = d.k",
    "union all": "select k, v as x from f where v > 4 union all select k, w as x from d",
    "union": "select k from f union select k from e",
    "union by group": "select k, sum(v) as x from f group by k union all select city, max(w) from d group by city",
    "union of rows and groups": "select k, v as x from f union all select k, sum(w) as x from d group by k",
    "except": "select k from f except select k from e",
    "except all": "select k, g from f except all select k, city from d",
    "intersect": "select k, g from f intersect select k, city as g from d",
    "intersect all": "select k from f intersect all select k from e",
    "three branches": "select k, g from f except (select k, city from d union all select k, flag from e)",
    "cte": "with s as (select k, g, v from f where v > 2) select k, sum(v) as s from s group by k",
    "cte aggregate join": (
        "with s as (select k, sum(v) as total from f group by k) "
        "select d.city, sum(s.total) t, count(*) n from d join s on s.k = d.k group by d.city"
    ),
    "cte left join": (
        "with s as (select k, count(*) as n from f group by k) "
        "select d.k, d.city, d.w, coalesce(s.n, 0) as n from d left join s on s.k = d.k"
    ),
    "cte twice": (
        "with s as (select k, g, sum(v) as total from f group by k, g) "
        "select a.k, a.g, a.total, b.total as other from s a join s b on a.k = b.k and a.g < b.g"
    ),
    "cte of a cte": (
        "with a (kk, total) as (select k, sum(v) from f group by k), b as (select kk from a where total > 8) "
        "select d.city, count(*) n from d join b on b.kk = d.k group by d.city"
    ),
    "derived table with new column names": (
        "select a.p, sum(a.q) as s from (select k, v from f union all select k, w from d) a (p, q) group by a.p"
    ),
    "cte with the name of a table": (
        "with f as (select k, v from f where v > 1) select k, count(*) n from f group by k"
    ),
    "union in cte": (
        "with u as (select k, v as x from f union all select k, w from d) select k, sum(x) s from u group by k"
    ),
    "derived at depth": (
        "select s, count(*) n from (select k, max(s) as s from (select k, g, sum(v) as s from "
        "(select * from f where v > 1) a group by k, g) b group by k) c group by s"
    ),
    "aggregate of aggregate": (
        "select s, count(*) n from (select k, g, sum(v) as s from f group by k, g) x group by s"
    ),
    "window over aggregate": (
        "select k, g, s, rank() over (partition by k order by s desc) as r "
        "from (select k, g, sum(v) as s from f group by k, g) x"
    ),
    "derived left of derived": (
        "select a.k, a.n, b.m from (select k, count(*) n from f group by k) a "
        "left join (select k, count(*) m from e where flag = 1 group by k) b on a.k = b.k"
    ),
    "left join of a set operation": (
        "select d.city, count(x.k) n from d left join (select k from f except select k from e) x on x.k = d.k "
        "group by d.city"
    ),
}

FULL: Final = {
    "an aggregate without GROUP BY": ("select\n  count(*) as n\nfrom f", 2, "Add GROUP BY"),
    "window function without PARTITION BY": (
        "select id,\n  rank() over (order by v) as r\nfrom f",
        2,
        "Partition it",
    ),
    "LIMIT depends on all rows": ("select id from f\norder by v\nlimit 3", 3, "QUALIFY row_number()"),
    "NOT IN (subquery): one NULL in it decides about all rows": (
        "select id from f\nwhere k not in (select k from e)",
        2,
        "Write NOT EXISTS",
    ),
    "ROLLUP, CUBE and GROUPING SETS have totals over all rows": (
        "select k, g, sum(v) as s from f\ngroup by cube (k, g)",
        2,
        "Write one table for each GROUP BY",
    ),
    "a subquery as a value": (
        "select id,\n  v - (select avg(v) from f) as x from f",
        2,
        "Join a derived table",
    ),
    "RIGHT JOIN": ("select d.k, f.v from f\nright join d on f.k = d.k", 2, "write LEFT JOIN"),
    "FULL JOIN after another join": (
        "select f.id from f join e on e.k = f.k\nfull join d on d.k = f.k",
        2,
        "Write the FULL JOIN first",
    ),
    "a recursive CTE": (
        "with recursive r as (\n  select k, 1 as n from f union all\n  select k, n + 1 from r)\nselect k, n from r",
        1,
        "for a fixed number of levels",
    ),
    "RAND() has another value in each run": (
        "select k,\n  rand() as r from f",
        2,
        "Read the value from a column",
    ),
    "CURRENT_TIMESTAMP() has another value in each run": (
        "select k,\n  current_timestamp() as r from f",
        2,
        "Read the value from a column",
    ),
    "FULL JOIN without an equality of two columns of one type": (
        "select f.id, d.w from f\nfull join d on f.k < d.k",
        2,
        "cast them in a derived table",
    ),
    "EXISTS (subquery) inside another expression": (
        "select id from f\nwhere v = 1 or exists (select 1 from e where e.k = f.k)",
        2,
        "a condition of WHERE of its own",
    ),
    "new column names behind a table": (
        "select x.k, x.city from\n  d as x (city, k, w)",
        2,
        "Rename them in a derived table",
    ),
    "LATERAL VIEW is not planned incrementally": (
        "select k, x from f\nlateral view explode(array(v)) l as x",
        2,
        "Write it without",
    ),
    "DISTINCT ON": ("select distinct on (k)\n k, v from f", 1, "QUALIFY row_number()"),
    "NATURAL JOIN": ("select f.v from f\nnatural join d", 2, "Write JOIN … ON"),
    "USING after a FULL JOIN": (
        "select k, f.v, e.flag from f full join d using (k)\nleft join e using (k)",
        2,
        "Write JOIN … ON",
    ),
    "a table in parentheses": ("select a.v from\n  (f) a", 2, "Write it without them"),
    "a join in parentheses is not planned incrementally": (
        "select f.v from\n(f join d on f.k = d.k)",
        2,
        "Write it without",
    ),
    "no column of the result belongs to all of its groups, windows and branches": (
        "select sum(v) as s\nfrom f group by k",
        1,
        "Select the columns of GROUP BY",
    ),
    "my_function() is no function of Spark, so it may have another value in each run": (
        "select k,\n  my_function(v) as x from f",
        2,
        "List it as deterministic",
    ),
}
"""Queries that must be computed in full: by the reason, the query, the reason's line, and words of the remedy."""
