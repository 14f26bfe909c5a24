"""The leading server in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, or_, select, update

from server.store.rows import LeaderRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_BACKGROUND = "background"


@dataclass(frozen=True)
class SqlLeaders:
    """See catalog.ports.background.Leaders."""

    session: ReadSession

    def claim(self, holder: str, *, now: datetime, until: datetime) -> int | None:
        """Take or renew the leadership; returns its term, new for a new holder, or None for a follower.

        A stored claim that ends later than any possible new claim comes from before the clock was set back.  It counts
        as expired, or nobody would lead until the clock reaches its end.
        """
        beyond = until + (until - now)  # twice the term, because servers ask at slightly different times
        mine_or_lapsed = or_(LeaderRow.holder == holder, LeaderRow.until < now, LeaderRow.until > beyond)
        term = case((LeaderRow.holder == holder, LeaderRow.term), else_=LeaderRow.term + 1)
        claimed = update(LeaderRow).where(mine_or_lapsed).values(holder=holder, until=until, term=term)
        claimed_term = self.session.execute(claimed.returning(LeaderRow.term)).scalar_one_or_none()
        if claimed_term is not None:
            return claimed_term
        if self.session.get(LeaderRow, _BACKGROUND) is not None:
            return None
        first = {"name": _BACKGROUND, "holder": holder, "until": until, "term": 1}
        return 1 if insert_unless_taken(self.session, LeaderRow, first) else None

    def holds(self, holder: str, term: int) -> bool:
        """Whether the holder leads in this term; locks the row until the transaction ends."""
        query = select(LeaderRow.holder, LeaderRow.term).where(LeaderRow.name == _BACKGROUND).with_for_update(read=True)
        return self.session.execute(query).one_or_none() == (holder, term)
