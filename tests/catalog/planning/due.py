"""Whether a job is due at a given time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from catalog.maintenance import decide_next_job
from catalog.planning import Due, NotDue, TableFacts
from tests.factories import NOW

HOUR = timedelta(hours=1)
AT_THREE = {"firn.orphans.schedule": "0 3 * * *"}
THREE = NOW.replace(hour=3, minute=0)


def due(facts: TableFacts, past: Any = (), now: datetime = NOW) -> Due:
    decision = decide_next_job(facts, past, now)
    assert isinstance(decision, Due), decision.reason
    return decision


def not_due(facts: TableFacts, past: Any = (), now: datetime = NOW) -> NotDue:
    decision = decide_next_job(facts, past, now)
    assert isinstance(decision, NotDue), decision.reason
    return decision
