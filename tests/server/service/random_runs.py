"""Random histories of a model, each on a database of its own."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.databases import open_copy


def run_histories(
    history: type[RuleBasedStateMachine], migrated: Path, scratch: Path, *, most: int, steps: int
) -> None:
    """Run so many histories; `history` takes a database and a directory."""
    numbers = count()

    class OnItsOwnDatabase(history):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            directory = scratch / str(next(numbers))
            directory.mkdir()
            self.opened = open_copy(migrated, directory / "firn.db")
            super().__init__(self.opened.__enter__().database, directory)

        def teardown(self) -> None:
            self.opened.__exit__(None, None, None)

    phases = [Phase.explicit, Phase.generate]
    run_state_machine_as_test(
        OnItsOwnDatabase, settings=settings(max_examples=most, stateful_step_count=steps, deadline=None, phases=phases)
    )
