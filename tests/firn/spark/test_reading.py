"""`firn.spark.read` finds the newest state of a keyed table, and waits for one that the server has not merged yet."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from firn.image_lag import IMAGE_LAG
from firn.spark.reading import _find_image
from firn.transport import TRIES

OLDER = {"firn.image.snapshot": "7", IMAGE_LAG: "1500"}


@dataclass
class Session:
    """Answers for a table whose properties change with each REFRESH."""

    states: list[dict[str, str]]
    statements: list[str] = field(default_factory=list)

    def sql(self, statement: str) -> Session:
        self.statements.append(statement)
        if statement.startswith("REFRESH"):
            self.states.pop(0)
        return self

    def collect(self) -> list[dict[str, Any]]:
        return [{"key": key, "value": value} for key, value in self.states[0].items()]


def find(*states: dict[str, str]) -> str | None:
    return _find_image(cast("SparkSession", Session(list(states))), "lake.db.t")


def test_a_state_is_the_newest_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "firn"):
        assert find({"firn.image.snapshot": "8"}) == "8"
        assert find({"firn.image.snapshot": "none"}) is None
        assert find({"comment": "plain"}) is None
        assert find(OLDER, OLDER, {"firn.image.snapshot": "8"}) == "8"
    assert caplog.messages == []


def test_an_older_state_is_taken_in_the_end_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "firn"):
        assert find(*[OLDER] * TRIES) == "7"
    (warning,) = caplog.messages
    assert "lake.db.t shows an older state: commits of the last 1.5 s" in warning
