"""Spark SQL of columns in sequence groups (docs/protocols.md, rule 1.10). Column references come quoted."""

from __future__ import annotations

from collections.abc import Sequence

from firn.protocol.partial import SET


def fold_grouped(column: str, field: str, members: Sequence[int], last_delete: str) -> str:
    """The struct `v` of a column of `c`: its value in the change with the greatest sequence value of those that set the
    whole group, with the ids `members`, after the last delete; null if none did.

    In Spark's order of structs null is the least.
    """
    names_all = " AND ".join(f"find_in_set('{field_id}', c.{SET}) > 0" for field_id in members)
    counts = f"c._row_id > c.{last_delete} AND (c.{SET} IS NULL OR ({names_all}))"
    return f"max_by(struct(c.{column} AS v), struct(c.{field} AS s, c._row_id AS i)) FILTER (WHERE {counts})"


def patch_grouped(column: str, field: str, *, number: int, sequence: int) -> str:
    """The value of a column of `b` after the changes `f`: theirs, unless base's sequence value is greater."""
    wins = f"f.f{number} IS NOT NULL AND (b.{field} IS NULL OR f.f{sequence}.v >= b.{field})"
    return f"CASE WHEN {wins} THEN f.f{number}.v ELSE b.{column} END"


def update_grouped(column: str, field: str, *, number: int, sequence: int) -> str:
    """The same for a row `t` of MERGE INTO and its changes `s`.

    The flag of the sequence field says that nothing of base counts, because the row was deleted. `greatest` leaves out
    nulls.
    """
    if number == sequence:
        return f"IF(s.{SET}[{number}], s.{column}, greatest(t.{column}, s.{column}))"
    wins = f"s.{SET}[{sequence}] OR t.{field} IS NULL OR s.{field} >= t.{field}"
    return f"IF(s.{SET}[{number}] AND ({wins}), s.{column}, t.{column})"
