"""Skips: a user lets a table go on after records that its topic no longer has (docs/protocols.md, rule 6.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from catalog.commits.positions import NO_POSITION
from catalog.errors import Conflict
from catalog.kafka.log_state import LogProblem
from catalog.names import CatalogName, TableName
from server.service.streams.log_stores import LogStatus
from server.service.streams.position_moves import PositionMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A step of a table's position over records that are gone."""

    start: str
    end: str
    problem: LogProblem


@dataclass(frozen=True)
class LogSkips:
    """Moves logs to the next records that their topics have."""

    moves: PositionMoves

    def skip(
        self, catalog: CatalogName, table: TableName, *, expected: str | None = None, dry_run: bool = False
    ) -> Skip:
        """Move the position to the next records that the topic has. A drain that runs ends; a stopped stream restarts.

        `expected` is the position to which the user agreed. Conflict if another one is next now, or if drains can go
        on without a skip. Raises as `LogStores.show` does.
        """
        plan = partial(_plan, table, expected)
        skip = plan(self.moves.stores.show(catalog, table))  # a refusal ends no drain
        return skip if dry_run else self.moves.move(catalog, table, plan)


def _plan(table: TableName, expected: str | None, log: LogStatus) -> Skip:
    if log.state.problem is None:
        raise Conflict(
            f"the log of {table} has nothing to skip: drains go on from {_name(log.state.position)}",
            hint=f"run `firn drain {table}`",
        )
    end = log.state.start_position
    if expected is not None and expected != end:
        raise Conflict(
            f"a skip of {table} would now go on from {end}, and not from {expected}", hint="look at the log again"
        )
    return Skip(start=log.state.position, end=end, problem=log.state.problem)


def _name(position: str) -> str:
    return "its start" if position == NO_POSITION else position
