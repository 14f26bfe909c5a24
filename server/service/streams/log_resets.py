"""Resets: a user sets the position of a table's log (docs/protocols.md, rule 6.15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from catalog.commits.positions import KafkaPosition, show_position
from catalog.errors import Conflict
from catalog.kafka.log_reset import LogReset, ResetTarget, check_target_topic, parse_reset_target, plan_reset
from catalog.names import CatalogName, TableName
from server.service.streams.log_stores import LogStatus
from server.service.streams.position_moves import PositionMoves


@dataclass(frozen=True)
class LogResets:
    """Sets the positions of logs."""

    moves: PositionMoves

    def reset(
        self, catalog: CatalogName, table: TableName, to: str, *, expected: str | None = None, dry_run: bool = False
    ) -> LogReset:
        """Set the position to `earliest`, `latest`, the first records since a time, or offsets of all partitions.

        A drain that runs ends, and a stream that ran or has stopped starts again. `expected` is the position from
        which the user agreed to go: Conflict if the table has another one now. Raises Invalid for a target that the
        topic does not have, and as `LogStores.show` does.
        """
        plan = partial(self._plan, table, parse_reset_target(to), expected)
        reset = plan(self.moves.stores.show(catalog, table))  # a refusal ends no drain
        return reset if dry_run else self.moves.move(catalog, table, plan)

    def _plan(self, table: TableName, target: ResetTarget, expected: str | None, log: LogStatus) -> LogReset:
        if expected is not None and expected != log.state.position:
            raise Conflict(
                f"the log of {table} is at {show_position(log.state.position)} now, and not at "
                f"{show_position(expected)}",
                hint=f"`firn stream pause {table}` ends the drain of an optimizer; then look at the reset again",
            )
        return plan_reset(log.state, self._find_offsets(target, log), log.order)

    def _find_offsets(self, target: ResetTarget, log: LogStatus) -> Mapping[int, int]:
        topic = log.state.topic
        if isinstance(target, KafkaPosition):
            check_target_topic(topic.name, target)
            return target.offsets
        if isinstance(target, datetime):
            return self.moves.stores.find_offsets(log, target)
        is_earliest = target == "earliest"
        return {number: at.earliest if is_earliest else at.stable for number, at in topic.partitions.items()}
