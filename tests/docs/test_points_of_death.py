"""The functions at which tests kill a server or an optimizer are there; the tests that kill them take minutes."""

from __future__ import annotations

import importlib

import pytest

from tests.integration.hive.dying import STEPS
from tests.integration.keyed.dying import POINTS


@pytest.mark.parametrize("point", sorted({*STEPS, *POINTS["server"], *POINTS["optimizer"]}))
def test_a_point_of_death_is_a_function(point: str) -> None:
    module, _, path = point.partition(":")
    owner, _, name = path.partition(".")
    assert callable(getattr(getattr(importlib.import_module(module), owner), name))
