"""When the runs of a pipeline's tables start (docs/pipelines.md#triggers).

A table with `fresh_within` starts as late as its target allows: each run then computes the changes of many commits. A
table that only others read starts early enough for them, so a chain shares its slack, and the first table takes all of
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from catalog.policy.schedule import parse_schedule
from firn.protocol.pipelines import Trigger, TriggerKind

REMEMBERED_RUNS = 50
"""The runs whose durations predict the next one."""
_ENOUGH_RUNS = 20
_FIRST_PAUSE = timedelta(seconds=30)
_LONGEST_PAUSE = timedelta(hours=1)
_UNKNOWN = timedelta(minutes=2)
"""The predicted duration of a table's first incremental run."""
_RESERVE = 0.05
"""The share of a target that stays unused: after a quiet night the first runs take longer than the last ones did."""
_ZONE = ZoneInfo("UTC")
_CLOCK_TOLERANCE = timedelta(minutes=1)
"""A time that lies further ahead comes from a clock that was wrong, and says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What decides about the next run of a table.

    `pending` has the inputs with changes that the table does not show, and the time of the oldest commit behind these
    changes. Of an input that a pipeline makes, that is a commit to a table at the chain's beginning.
    """

    trigger: Trigger
    inputs: Sequence[str]
    created_at: datetime
    pending: Mapping[str, datetime] = field(default_factory=dict)
    is_built: bool = True
    is_active: bool = False
    """Whether a run waits, works, or has rows that wait for approval."""
    has_chunks: bool = False
    """Whether a backfill has chunks left, of which each run computes some."""
    is_bounded: bool = False
    """Whether its last run has left commits to the next one (docs/protocols.md, rule 8.14)."""
    last_started: datetime | None = None
    durations: Sequence[timedelta] = ()
    """Of its last successful runs."""
    failures: int = 0
    """The failed runs since the last success."""
    last_failed: datetime | None = None

    @property
    def has_work(self) -> bool:
        """Whether a run would change something."""
        return bool(self.pending) or not self.is_built or self.has_chunks


@dataclass(frozen=True, slots=True)
class NextRun:
    """The time at which a run should start, and why then."""

    at: datetime
    reason: str


def plan_runs(tables: Mapping[str, TableFacts], now: datetime, *, max_failures: int) -> dict[str, NextRun]:
    """The next runs of these tables, by name. A table without an entry waits for a user, a commit, or its inputs.

    `tables` are in an order in which each comes after those that it reads. Times in the past mean now.
    """
    missing = _find_missing(tables)
    wanted: dict[str, NextRun] = {}
    for name, table in reversed(list(tables.items())):
        own = _find_start(table, missing.get(name), now)
        demanded = wanted.pop(name, None)
        starts = [start for start in (own, demanded) if start is not None]
        if not starts:
            continue
        start = min(starts, key=lambda run: run.at)
        for upstream in table.inputs:
            if upstream in tables and upstream in missing:
                _demand(wanted, upstream, tables[upstream], start, name)
        wanted[name] = start
    # A backfill of a table, or a bounded run, is no reason to run the tables that it reads.
    for name, table in tables.items():
        if table.is_bounded:
            wanted[name] = _choose_first(wanted.get(name), NextRun(now, "the last run has left commits"))
        elif table.has_chunks:
            wanted[name] = _choose_first(wanted.get(name), NextRun(now, "a backfill has chunks left"))
    return {
        name: _delay(table, wanted[name], now)
        for name, table in tables.items()
        if name in wanted and table.has_work and not table.is_active and table.failures < max_failures
    }


def _choose_first(run: NextRun | None, other: NextRun) -> NextRun:
    """The run that a trigger starts, or the other one if that comes first."""
    return run if run is not None and run.at <= other.at else other


def predict_duration(table: TableFacts) -> timedelta:
    """How long the next run takes at most, by the last ones."""
    return predict_by_durations(table.durations) or _UNKNOWN


def predict_by_durations(durations: Sequence[timedelta]) -> timedelta | None:
    """How long the next run takes at most, by the durations of runs, oldest first; None without any."""
    last = sorted(durations[-REMEMBERED_RUNS:])
    if not last:
        return None
    return 2 * last[-1] if len(last) < _ENOUGH_RUNS else 1.15 * last[int(0.99 * len(last))]


def _find_missing(tables: Mapping[str, TableFacts]) -> dict[str, datetime]:
    """The oldest commit that each table does not show, directly or because an input of it does not."""
    missing: dict[str, datetime] = {}
    for name, table in tables.items():
        times = [*table.pending.values(), *(missing[source] for source in table.inputs if source in missing)]
        if times:
            missing[name] = min(times)
    return missing


def _find_start(table: TableFacts, missing: datetime | None, now: datetime) -> NextRun | None:
    """When the table's own trigger starts a run."""
    trigger = table.trigger
    if trigger.kind is TriggerKind.MANUAL:
        return None
    if trigger.kind is TriggerKind.CRON:
        return _find_scheduled(table, now)
    if not table.is_built:
        return NextRun(now, "the table is not built yet")
    if trigger.kind is TriggerKind.COMMIT:
        waits = not table.pending or (trigger.all_inputs and len(table.pending) < len(set(table.inputs)))
        return None if waits else NextRun(now, "its inputs have changed")
    if missing is None or trigger.fresh_within_seconds is None:
        return None
    if _is_from_wrong_clock(missing, now):
        return NextRun(now, "a commit to its inputs has a time in the future")
    target = timedelta(seconds=trigger.fresh_within_seconds)
    return NextRun(
        missing + target - _RESERVE * target - predict_duration(table), "the latest start that keeps the table fresh"
    )


def _find_scheduled(table: TableFacts, now: datetime) -> NextRun | None:
    schedule = parse_schedule(table.trigger.cron or "")
    last = schedule.last(now, _ZONE)
    started = table.last_started
    if started is None or _is_from_wrong_clock(started, now):
        started = table.created_at
    if last is not None and last > started:
        return NextRun(last, f"it was scheduled for {last:%Y-%m-%d %H:%M} UTC")
    following = schedule.following(now, _ZONE)
    return None if following is None else NextRun(following, "by schedule")


def _demand(wanted: dict[str, NextRun], upstream: str, state: TableFacts, run: NextRun, reader: str) -> None:
    """Let an input with changes run before its reader does."""
    at = run.at - predict_duration(state)
    if upstream not in wanted or at < wanted[upstream].at:
        wanted[upstream] = NextRun(at, f"{reader} reads it")


def _delay(table: TableFacts, run: NextRun, now: datetime) -> NextRun:
    """The run, not before a pause after the last failure. Each failure in a row doubles the pause."""
    if not table.failures or table.last_failed is None or _is_from_wrong_clock(table.last_failed, now):
        return run
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(table.failures - 1, 10))
    earliest = table.last_failed + pause
    return run if run.at >= earliest else NextRun(earliest, f"again after {table.failures} failed runs")


def _is_from_wrong_clock(time: datetime, now: datetime) -> bool:
    """Whether somebody has set the clock of the database back since. Waiting would last as long as it was ahead."""
    return time > now + _CLOCK_TOLERANCE
