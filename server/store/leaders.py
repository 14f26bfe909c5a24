"""Which server leads, in the database."""

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
        """Take or renew the leadership; its term, which is a new one where the holder is.

        A claim that ends later than any that could be made now is of a clock that was set back since: nobody would
        lead until it has come that far again.
        """
        beyond = until + (until - now)  # and not until alone: servers ask at slightly different moments
        mine_or_lapsed = or_(LeaderRow.holder == holder, LeaderRow.until < now, LeaderRow.until > beyond)
        term = case((LeaderRow.holder == holder, LeaderRow.term), else_=LeaderRow.term + 1)
        claimed = update(LeaderRow).where(mine_or_lapsed).values(holder=holder, until=until, term=term)
        taken = self.session.execute(claimed.returning(LeaderRow.term)).scalar_one_or_none()
        if taken is not None:
            return taken
        if self.session.get(LeaderRow, _BACKGROUND) is not None:
            return None
        first = {"name": _BACKGROUND, "holder": holder, "until": until, "term": 1}
        return 1 if insert_unless_taken(self.session, LeaderRow, first) else None

    def holds(self, holder: str, term: int) -> bool:
        """Its row stays as it is until this transaction ends (SQLite's writers are alone anyway)."""
        query = select(LeaderRow.holder, LeaderRow.term).where(LeaderRow.name == _BACKGROUND).with_for_update(read=True)
        return self.session.execute(query).one_or_none() == (holder, term)
