"""What all tables of a run share: the session, the catalog, and the way to tell people what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from firn.protocol.backfills import Claimed, ClaimRequest
from firn.protocol.pipeline_pins import InputPin
from optimizer.pipelines.inputs import PinnedInput, StateRead, open_input
from optimizer.pipelines.lake import Lake
from optimizer.pipelines.store_files import StoreFiles
from optimizer.pipelines.tuning import Tuning


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One attempt at a run. `stack` closes, after the commit, what its tables keep in Spark until then."""

    spark: SparkSession
    lake: Lake
    run_id: str
    deterministic: Sequence[str]
    is_full_requested: bool
    holds: bool
    """Whether the commit may have to wait for approval."""
    stage: Callable[[str], None]
    say: Callable[[str], None]
    check_reads: Callable[[Sequence[StateRead]], None]
    """Raises Refused if the run may not open the files of one of these."""
    claim: Callable[[ClaimRequest], Claimed]
    """Lets the commit of a table with all rows end its backfills."""
    stack: ExitStack
    tuning: Tuning
    pipeline: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The Python files of the run."""
    allow_code: bool = False
    files: StoreFiles | None = None
    """The way to the files of the table without Spark; None if all steps of the run are Spark's."""


@dataclass(frozen=True)
class SharedInputs:
    """The inputs of all tables of a run: two tables that read the same states of an input share it."""

    lake: Lake
    opened: dict[tuple[str, str | None, str | None], PinnedInput]

    def open(self, since: Sequence[InputPin] | None, until: Sequence[InputPin]) -> Mapping[str, PinnedInput]:
        """The inputs of one table by name. Without an old checkpoint both pins are the new one: nothing has changed."""
        old = {pin.table: pin.version for pin in since or ()}
        return {pin.table: self._open(pin, pin.version if since is None else old.get(pin.table)) for pin in until}

    def _open(self, pin: InputPin, since: str | None) -> PinnedInput:
        states = (pin.table, since, pin.version)
        if states not in self.opened:
            self.opened[states] = open_input(self.lake, pin, since)
        return self.opened[states]
