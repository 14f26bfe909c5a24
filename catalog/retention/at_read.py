"""Time to live at read: reads of a keyed table hide rows that are too old (docs/protocols.md, rule 5.14).

The cutoff moves in steps, because each step needs a new image. It is never later than that of a ttl job, so a read
hides no row that the job would keep, except in partitions that the job deletes as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.keyed.view_sql import Pair, build_merged_sql, quote_name
from catalog.policy.policy import Policy
from catalog.retention.ttl import Cutoff, TtlPolicy, compute_ttl_cutoff

AT_READ = "firn.ttl.at-read"
_DAY, _HOUR, _MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
_STEPS_PER_AGE = 24


def compute_read_cutoff(base: Json, policy: Policy, now: datetime) -> Cutoff | None:
    """The cutoff for reads of a keyed table with this base; None if they hide nothing.

    A policy for old rows that does not fit the table hides nothing. The ttl job says why.
    """
    if not policy[AT_READ]:
        return None
    age, zone = policy["firn.ttl.max-age"], policy["firn.optimize.time-zone"]
    rule = TtlPolicy(field=policy["firn.ttl.field"], max_age=age, zone=zone, whole_partitions=False)
    try:
        cutoff = compute_ttl_cutoff(base, rule, now)
    except (Invalid, OverflowError):  # an age of more years than the calendar has
        return None
    return replace(cutoff, at=_round_down(cutoff.at, age))


def _round_down(at: datetime, age: timedelta) -> datetime:
    """The start of the minute, hour or day: the longest that is at most a 24th of the age."""
    step = next((step for step in (_DAY, _HOUR) if age >= step * _STEPS_PER_AGE), _MINUTE)
    start = at.replace(second=0, microsecond=0)
    if step >= _HOUR:
        start = start.replace(minute=0)
    return start.replace(hour=0) if step == _DAY else start


def build_read_sql(pair: Pair, cutoff: Cutoff | None) -> str:
    """The rows that readers see: the merged rows without those before the cutoff."""
    merged = build_merged_sql(pair)
    if cutoff is None:
        return merged
    columns = ", ".join(map(quote_name, pair.columns))
    return f"SELECT {columns} FROM ({merged}) AS m WHERE NOT {cutoff.condition('m')}"  # noqa: S608 -- quoted names


def describe_hidden(cutoff: Cutoff) -> str:
    """The rows that reads hide, as text: `day < 2026-01-01`."""
    at = cutoff.at.date() if cutoff.kind == "date" else cutoff.at
    return f"{cutoff.column} < {at.isoformat()}"
