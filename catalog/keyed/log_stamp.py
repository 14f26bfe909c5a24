"""The position of a table's log on each snapshot of its change store (docs/protocols.md, rule 6.6).

Only the server stamps it. So a reader finds in any snapshot which records of the log it has.
"""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.iceberg.table import current_snapshot
from catalog.keyed.spec import LOG_POSITION, LOG_TOPIC, LOG_TOPIC_ID, LOG_WRITER, POSITION, WRITER_ID


def stamp_log(base: Json, change: Json, update: Json) -> Json:
    """The update that adds a change snapshot, with the log's position: the step of the log's writer, or the head's."""
    snapshot = update["snapshot"]
    summary = snapshot.get("summary") or {}
    own = {key: value for key, value in summary.items() if key not in (LOG_POSITION, LOG_TOPIC_ID)}
    return {**update, "snapshot": {**snapshot, "summary": {**own, **_find_position(base, change, summary)}}}


def _find_position(base: Json, change: Json, summary: Json) -> Json:
    if LOG_TOPIC not in base.get("properties", {}):
        return {}
    if summary.get(WRITER_ID) == LOG_WRITER and summary.get(POSITION):
        topic_id = {LOG_TOPIC_ID: summary[LOG_TOPIC_ID]} if summary.get(LOG_TOPIC_ID) else {}
        return {LOG_POSITION: summary[POSITION], **topic_id}
    head = (current_snapshot(change) or {}).get("summary") or {}
    return {key: head[key] for key in (LOG_POSITION, LOG_TOPIC_ID) if key in head}
