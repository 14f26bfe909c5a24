"""A server that takes over on PostgreSQL."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from server.background.leadership import Leadership
from tests.databases import OpenDatabase


@pytest.mark.postgres
def test_a_takeover_waits_for_a_write_that_has_passed_the_fence(opened_postgres: OpenDatabase) -> None:
    database, order = opened_postgres.database, []
    leader, other = (Leadership(database, timedelta(seconds=0), holder=holder) for holder in "ab")
    assert leader.leads()
    fence = leader.fence()

    def takes_over() -> None:
        assert other.leads()
        order.append("taken over")

    waiting = threading.Thread(target=takes_over)
    with database.writing() as uow:
        assert fence(uow)
        waiting.start()
        waiting.join(0.5)
        order.append("written")
    waiting.join(30)
    assert order == ["written", "taken over"]
