"""Conditions of backfills, parsed by the server: a user hears at once what is wrong with one (decision 136)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

from catalog.errors import InvalidDefinition
from firn.pipelines import errors
from firn.pipelines.chunks import cut_condition
from firn.pipelines.conditions import parse_condition


def cut_into_chunks(
    where: str, types: Mapping[str, str], deterministic: Collection[str], count: int | None, today: dt.date
) -> list[str]:
    """The conditions of the chunks of `where`, which is one over columns with these types.

    Raises InvalidDefinition for a condition that is not one over these columns.
    """
    try:
        return cut_condition(parse_condition(where, [*types], deterministic), types, count, today)
    except errors.InvalidDefinition as problem:
        raise InvalidDefinition(f"where: {problem.message}", hint=problem.hint) from problem


def explain_misfit(conditions: Sequence[str], scope: Sequence[str], deterministic: Collection[str]) -> str | None:
    """Why these are no conditions over the scope; None if they are."""
    try:
        for condition in conditions:
            parse_condition(condition, scope, deterministic)
    except errors.InvalidDefinition as problem:
        return problem.message
    return None
