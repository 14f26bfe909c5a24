"""Statements about the catalog have the bounds of queries: how many at once, of all people and of one."""

from __future__ import annotations

from uuid import UUID

import pytest

from catalog.access.privileges import PrincipalId
from catalog.errors import Unavailable
from server.service.queries.admission import Admission

ANN, BEN = PrincipalId(UUID(int=1)), PrincipalId(UUID(int=2))


def test_all_people_together_have_a_bound_and_an_end_makes_room() -> None:
    admission = Admission()
    with admission.answering(4, active=1, own=0, owner=ANN), admission.answering(4, active=1, own=0, owner=BEN):
        admission.check(4, active=1, own=0, owner=None)
        with pytest.raises(Unavailable, match="4 queries wait or run"):
            admission.check(4, active=2, own=0, owner=None)
        with (
            pytest.raises(Unavailable, match="4 queries wait or run"),
            admission.answering(4, active=2, own=0, owner=None),
        ):
            pytest.fail("it was let in")
    admission.check(4, active=3, own=0, owner=ANN)


def test_one_person_has_half_of_it_with_queries_and_statements_together() -> None:
    admission = Admission()
    with admission.answering(4, active=1, own=1, owner=ANN):
        with pytest.raises(Unavailable, match="2 of your queries wait or run"):
            admission.check(4, active=1, own=1, owner=ANN)
        admission.check(4, active=1, own=1, owner=BEN)
    admission.check(4, active=1, own=1, owner=ANN)


def test_a_statement_that_fails_makes_room_too() -> None:
    admission = Admission()
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), admission.answering(2, active=0, own=0, owner=ANN):
            raise ValueError("broken")
    admission.check(1, active=0, own=0, owner=ANN)
