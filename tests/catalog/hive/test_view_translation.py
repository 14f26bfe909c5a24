"""Which queries of Hive views are the same in Spark, and what is said of the others."""

from __future__ import annotations

import pytest

from catalog.hive.view_translation import LONGEST, ViewQuery, list_tables, translate

SCHEMAS = {
    "shop.orders": {
        "id": "bigint",
        "customer": "varchar(20)",
        "amount": "decimal(10,2)",
        "day": "date",
        "paid": "boolean",
        "at": "timestamp",
        "p": "string",
        "code": "char(3)",
        "tags": "array<string>",
    },
    "shop.customers": {"customer": "string", "city": "string"},
    "other.orders": {"id": "int"},
}


def translated(query: str, *columns: str) -> ViewQuery:
    return translate(query, "shop", columns, SCHEMAS)


@pytest.mark.parametrize(
    ("query", "columns", "sql"),
    [
        (
            "SELECT `orders`.`id`, `orders`.`amount` FROM `shop`.`orders` WHERE `orders`.`day` >= '2026-01-01'",
            ("id", "amount"),
            "SELECT `orders`.`id`, `orders`.`amount` FROM `shop`.`orders` WHERE `orders`.`day` >= '2026-01-01'",
        ),
        (
            (
                "SELECT o.customer, sum(o.amount) AS total, count(*) AS n FROM orders o "
                "LEFT OUTER JOIN customers c ON o.customer = c.customer GROUP BY o.customer HAVING count(*) > 1"
            ),
            ("customer", "total", "n"),
            (
                "SELECT `o`.`customer`, SUM(`o`.`amount`) AS `total`, COUNT(*) AS `n` FROM `orders` AS `o` "
                "LEFT OUTER JOIN `customers` AS `c` ON `o`.`customer` = `c`.`customer` "
                "GROUP BY `o`.`customer` HAVING COUNT(*) > 1"
            ),
        ),
        (
            "SELECT `id` AS `a` FROM (SELECT `orders`.`id` FROM `shop`.`orders`) `shop.v`",  # CREATE VIEW v (a) AS …
            ("a",),
            "SELECT `id` AS `a` FROM (SELECT `orders`.`id` FROM `shop`.`orders`) AS `shop.v`",
        ),
        (
            "WITH a AS (SELECT id, paid, p FROM shop.orders) SELECT id, CASE WHEN paid THEN 'x' ELSE p END k FROM a",
            ("id", "k"),
            (
                "WITH `a` AS (SELECT `id`, `paid`, `p` FROM `shop`.`orders`) "
                "SELECT `id`, CASE WHEN `paid` THEN 'x' ELSE `p` END AS `k` FROM `a`"
            ),
        ),
        (
            "SELECT id FROM shop.orders UNION ALL SELECT id FROM other.orders",
            ("ID",),
            "SELECT `id` FROM `shop`.`orders` UNION ALL SELECT `id` FROM `other`.`orders`",
        ),
    ],
)
def test_queries_that_are_the_same(query: str, columns: tuple[str, ...], sql: str) -> None:
    assert translated(query, *columns) == ViewQuery(sql=sql, tables=list_tables(query, "shop"))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id FROM orders WHERE id = '5'", "orders.id = '5' is of different or unknown types"),
        ("SELECT id FROM orders WHERE day > '1 May'", "is of different or unknown types"),
        ("SELECT id FROM orders WHERE at > '2026-01-01'", "is of different or unknown types"),
        ("SELECT id FROM orders WHERE id IN (SELECT city FROM customers)", "is of different or unknown types"),
        ("SELECT coalesce(id, 'none') AS id FROM orders", "is of different or unknown types"),
        ("SELECT id FROM orders UNION ALL SELECT city FROM customers", "is of different or unknown types"),
        ("SELECT if(paid, id, p) AS id FROM orders", "is of different or unknown types"),
        ("SELECT p + 1 AS id FROM orders", "calculates with something that is not a number"),
        ("SELECT sum(p) AS id FROM orders", "calculates with something that is not a number"),
        ("SELECT code AS id FROM orders", "code is of the type char, whose spaces Hive ignores"),
        ("SELECT id / 2 AS id FROM orders", "DIV is not known to give the same in Spark"),
        ("SELECT cast(p AS int) AS id FROM orders", "is not known to give the same in Spark"),
        ("SELECT year(day) AS id FROM orders", "the function year is not known"),
        ("SELECT my_udf(id) AS id FROM orders", "the function my_udf is not known"),
        ("SELECT id FROM orders WHERE p LIKE 'a%'", "is not known to give the same in Spark"),
        ("SELECT id FROM orders WHERE p RLIKE 'a'", "is not known to give the same in Spark"),
        ("SELECT id FROM orders LIMIT 5", "LIMIT is not known"),
        ("SELECT id FROM orders ORDER BY id", "ORDER is not known"),
        ("SELECT id FROM orders DISTRIBUTE BY id", "is not known"),
        ("SELECT id FROM orders GROUP BY 1", "GROUP BY a number depends on a setting of Hive"),
        ("SELECT id FROM orders LATERAL VIEW explode(tags) t AS x", "is not known"),
        ("SELECT id FROM orders TABLESAMPLE(10 PERCENT)", "is more than the name of a table"),
        ("SELECT id FROM orders LEFT SEMI JOIN customers c ON orders.customer = c.customer", "SEMI JOIN is not known"),
        ("SELECT tags[0] AS id FROM orders", "is not known"),
        ("SELECT current_date AS id FROM orders", "is not known"),
        ("SELECT * FROM orders", "* names columns only when it is read"),
        ("SELECT id, p FROM orders", "its query has other columns than the view"),
        ("SELECT nothing AS id FROM orders", "its columns cannot be resolved"),
        ("SELECT id FROM missing", "the types of shop.missing are not known"),
        ("SELECT id FROM", "its query cannot be parsed"),
        ("DROP TABLE orders", "its text is not one query"),
        ("SELECT id FROM orders; SELECT id FROM orders", "its text is not one query"),
        ("", "the metastore has no text of its query"),
        ("(" * 30_000, "its query cannot be parsed"),
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " AS id", "its query cannot be parsed"),
        ("SELECT id FROM orders -- " + "x" * LONGEST, "characters; 65,536 are allowed"),
        ("SELECT '\0' AS id", ""),
    ],
)
def test_what_may_differ_is_named(query: str, reason: str) -> None:
    result = translated(query, "id")
    if reason:
        assert result.sql is None
        assert any(reason in shown for shown in result.reasons), result.reasons
        assert all(len(shown) < 200 for shown in result.reasons)


def test_tables_are_listed_with_the_database_of_the_view() -> None:
    query = "WITH orders AS (SELECT id FROM Other.Orders) SELECT id FROM orders JOIN customers ON true"
    assert list_tables(query, "shop") == ("other.orders", "shop.customers")
    assert list_tables("no query at all (", "shop") == ()
