"""Whether the rows of a target are exactly those of a full computation at its checkpoint.

The checkpoint says with which state of the table the run that reached it has compared, if that run knew it. Since then
nothing but this run's own commit may have changed rows (docs/protocols.md, rule 8.30).
"""

from __future__ import annotations

import hashlib

from firn.errors import Refused
from firn.protocol.answers.changes import ChangePlan
from firn.protocol.names import join_name
from firn.protocol.pipeline_pins import Checkpoint, TargetPins
from firn.protocol.pipelines import CHECKPOINT_KEY
from firn.spark.changes import plan_feed
from optimizer.pipelines.inputs import CHANGE
from optimizer.pipelines.snapshots import load_iceberg_table
from optimizer.pipelines.target import PipelineTarget


def describe_state(target: PipelineTarget) -> str:
    """The version of a target, and its columns: a column that somebody dropped and added again has other values."""
    columns = sorted((column.id, column.name, column.type) for column in target.shown.columns)
    digest = hashlib.sha256(repr(columns).encode()).hexdigest()[:16]
    return f"{int(target.shown.version or 0)}:{digest}"


def has_exact_rows(target: PipelineTarget, pins: TargetPins) -> bool:
    """Whether the rows of a keyed target, as the server has shown it, are exact. Raises what the server cannot answer.

    No if anybody else has committed, if the columns are others, or if the history since then has expired.
    """
    since = pins.since
    if since is None:
        return False
    own = None if since.exact_at is not None else pins.writer.snapshot_id
    exact_at = since.exact_at if own is None else _read_commit(target, since, int(own))
    now = describe_state(target)
    if exact_at is None or exact_at.partition(":")[2] != now.partition(":")[2]:
        return False
    version = int(exact_at.partition(":")[0])
    client, until = target.lake.client, int(target.shown.version or 0)
    try:
        feed = plan_feed(client, target.path, join_name(target.parts), version, until)
    except Refused:
        return False  # the history has expired
    return has_only_commit(feed, own)


def has_only_commit(feed: ChangePlan, own: str | None) -> bool:
    """Whether nothing but a run's commit has changed rows; nothing at all if it has none."""
    appends = [commit.snapshot_id for commit in feed.appends]
    return feed.base_known and not feed.direct and appends == ([] if own is None else [own])


def _read_commit(target: PipelineTarget, since: Checkpoint, snapshot_id: int) -> str | None:
    """What the run knew whose commit reached the checkpoint; None for a commit that reached another one."""
    table = load_iceberg_table(target.lake.spark, (*target.parts, CHANGE))
    table.refresh()
    snapshot = table.snapshot(snapshot_id)
    text = None if snapshot is None else snapshot.summary().get(CHECKPOINT_KEY)
    if text is None:
        return None
    reached = Checkpoint.model_validate_json(text)
    return reached.exact_at if reached.id == since.id else None
