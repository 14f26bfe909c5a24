"""Which failed commits of replaced files leave the new files: all after which a snapshot may name them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from optimizer.pipelines.plain_files import Replacement, TargetChanged

PACKAGE = "org.apache.iceberg.exceptions."


class JavaError(Exception):
    """An error of Spark, with the Java exception that it comes from."""

    def __init__(self, class_name: str) -> None:
        super().__init__(class_name)
        java_class = SimpleNamespace(getName=lambda: PACKAGE + class_name)
        self._origin = SimpleNamespace(getClass=lambda: java_class, getMessage=lambda: "no", getCause=lambda: None)


def commit_with(error: Exception) -> MagicMock:
    """Let a commit fail; the staged files, of which a test asks whether they were discarded."""
    files, snapshot = MagicMock(), MagicMock(snapshot_id=1)
    files.list_new.return_value = iter(())
    snapshot.table.newOverwrite.return_value.commit.side_effect = error
    replacement: Any = Replacement(snapshot, files, [])
    with pytest.raises((JavaError, TargetChanged)):
        replacement.commit({})
    return files


def test_a_conflict_that_iceberg_finds_discards_the_files() -> None:
    commit_with(JavaError("ValidationException")).discard.assert_called_once()


@pytest.mark.parametrize(
    "name", ["NotAuthorizedException", "ForbiddenException", "CommitFailedException", "CommitStateUnknownException"]
)
def test_after_any_other_answer_a_snapshot_may_name_the_files(name: str) -> None:
    """The first of two deliveries of a request may have been applied, and the second refused for an ended token."""
    commit_with(JavaError(name)).discard.assert_not_called()
