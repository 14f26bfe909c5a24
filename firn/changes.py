"""The changes of a keyed table, read without Spark: a part of `client.tables["db.t"]`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import firn.scan
from firn.errors import Invalid
from firn.protocol.answers.changes import ChangePlan
from firn.protocol.changes import Each, Images

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.scan import Served
    from firn.transport import Json

_UNTIL = "firn.until"
Position = int | str | datetime
"""Where a feed begins or ends: a version, a time with its zone, or `consumer:` and a name."""


def write_position(position: Position) -> str:
    """A position as a request has it; Invalid for a time without a zone."""
    if not isinstance(position, datetime):
        return str(position)
    if position.tzinfo is None:
        raise Invalid(f"the time {position} has no zone", hint="give it one: .replace(tzinfo=UTC)")
    return position.isoformat()


def write_range(since: Position, until: Position | None, each: Each | str) -> dict[str, str | int | None]:
    """The parameters of a request for a feed; ValueError for another `each`."""
    end = None if until is None else write_position(until)
    return {"since": write_position(since), "until": end, "each": Each(each).value}


def read_changes(
    source: Served, plan: Json, *, images: Images | str = Images.AFTER, each: Each | str = Each.NET
) -> pa.Table:
    """Read the changes of a plan from the stores of its table."""
    stores = firn.scan.FeedStores(base=source.load("base"), change=source.load("change"), plan=ChangePlan.read(plan))
    feed = firn.scan.read_feed(stores, images=Images(images), each=Each(each))
    return feed.replace_schema_metadata({_UNTIL: str(stores.plan.until.version)})


def read_version(feed: pa.Table) -> int:
    """The version up to which a feed has the changes."""
    return int((feed.schema.metadata or {})[_UNTIL.encode()])
