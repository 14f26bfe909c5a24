"""Random histories of drops and undrops agree with a plain model of the rules."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.databases import open_database
from tests.server.service.dropping_model import DroppingHistory


def test_drops_undrops_and_purges_follow_their_rules(migrated_sqlite: Path, tmp_path: Path) -> None:
    numbers = count()

    class OnItsOwnDatabase(DroppingHistory):
        def __init__(self) -> None:
            directory = tmp_path / str(next(numbers))
            directory.mkdir()
            shutil.copy(migrated_sqlite, directory / "firn.db")
            self.opened = open_database(f"sqlite:///{directory / 'firn.db'}")
            super().__init__(self.opened.__enter__().database, directory)

        def teardown(self) -> None:
            self.opened.__exit__(None, None, None)

    run_state_machine_as_test(
        OnItsOwnDatabase,
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, phases=[Phase.explicit, Phase.generate]
        ),
    )
