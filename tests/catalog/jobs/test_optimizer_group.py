"""Groups of optimizers: what a name and settings may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import Conflict, Invalid
from catalog.jobs.optimizer_group import DEFAULT_GROUP, Group, GroupName, check_droppable, check_group, parse_group_name


@pytest.mark.parametrize("name", ["default", "nightly-2", "A_b", "x" * 50])
def test_names_that_fit_into_labels_and_command_lines_are_taken(name: str) -> None:
    assert parse_group_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 51, "two words", "ü", "a/b", "a\n", "a.b", "a;b"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="no group of optimizers"):
        parse_group_name(name)


@pytest.mark.parametrize(
    "changes",
    [{"reserved_slots": -1}, {"reserved_slots": 10_001}, {"catalog_quota": 0.0}, {"catalog_quota": 1.1}],
    ids=str,
)
def test_settings_out_of_their_bounds_are_refused(changes: dict[str, Any]) -> None:
    fine = check_group(Group(name=GroupName("g")))
    with pytest.raises(Invalid):
        check_group(replace(fine, **changes))


def test_the_default_group_and_groups_in_use_stay() -> None:
    nightly = GroupName("nightly")
    check_droppable(nightly, optimizers=0, jobs=0)
    for name, optimizers, jobs in ((DEFAULT_GROUP, 0, 0), (nightly, 1, 0), (nightly, 0, 1)):
        with pytest.raises(Conflict):
            check_droppable(name, optimizers=optimizers, jobs=jobs)
