"""Facts about an upgraded table and Hive: drift, unpublished changes, the publish request, superseded directories."""

from __future__ import annotations

from firn.cli.context import CliContext
from firn.cli.show import moment, size
from firn.errors import Unavailable
from firn.transport import Json


def describe_drift(status: Json) -> Json:
    """Describe the drift: its start, and who probably caused it. The columns have a table of their own."""
    if not status["drift"]:
        return {}
    is_columns = status["drift_kind"] == "columns"
    drift = "the columns below need a decision" if is_columns else status["drift"]
    return {"differs": f"{drift} (since {moment(status['drift_since'])})", "likely author": status["likely_author"]}


def load_publish_gap(ctx: CliContext, table: str) -> Json | None:
    """Load how many partitions of a plain table Hive lacks; None while the metastore does not answer."""
    try:
        return ctx.client.hive.preview_publish(table)
    except Unavailable:
        return None


def describe_publish_gap(status: Json, gap: Json | None = None) -> Json:
    """Describe the changes that Hive lacks: by rows of a keyed table, by partitions of a plain one."""
    unpublished = status["unpublished"]
    if gap is not None:
        return {"not published yet": _describe_partitions(gap)}
    if unpublished is None:
        return {}
    if not unpublished["commits"]:
        return {"not published yet": "nothing: Hive has every change"}
    rows, commits = unpublished["rows"], unpublished["commits"]
    changes = f"{_count(rows, 'change')} in {_count(commits, 'commit')} ({size(unpublished['bytes'])})"
    return {"not published yet": f"{changes}, the oldest of {moment(unpublished['since'])}"}


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _describe_partitions(gap: Json) -> str:
    if not gap["differing"]:
        return "nothing: Hive lists the table's own files"
    partitions = "1 partition differs" if gap["differing"] == 1 else f"{gap['differing']:,} partitions differ"
    return partitions if gap["since"] is None else f"{partitions}, since {moment(gap['since'])}"


def describe_publish_preview(preview: Json) -> Json:
    """Describe what a publish has to do, and the permissions of the new directories."""
    facts = {"table": preview["table"], "not published yet": _describe_partitions(preview)}
    facts |= _describe_work(preview)
    permissions = preview["permissions"]
    if permissions is None:
        return facts
    kept = "new directories get the same" if not permissions["not_kept"] else "; ".join(permissions["not_kept"])
    facts |= {"directory": permissions["directory"], "permissions": f"{permissions['permissions']}: {kept}"}
    if permissions["refused"]:
        facts["refused"] = permissions["refused"]
    return facts | ({"hint": permissions["hint"]} if permissions["hint"] else {})


def _describe_work(preview: Json) -> Json:
    """What a publish merges and writes, and what Hive's readers notice."""
    facts: Json = {}
    if preview["pending_rows"]:
        facts["merges first"] = f"{_count(preview['pending_rows'], 'pending change')}, which may change more partitions"
    if preview["differing"]:
        written = (
            f"{_count(preview['rows'], 'row')}, now {size(preview['bytes'])} in {_count(preview['files'], 'file')}"
        )
        facts["writes"] = f"{written}; Hive's readers see them when the metastore points to the new directories"
        rewritten = preview["differing"] - preview["new"]
        names = ", ".join(preview["names"]) + (", …" if preview["names"] and rewritten > len(preview["names"]) else "")
        parts = [f"{_count(preview['new'], 'new partition')}"] if preview["new"] else []
        parts += [f"{_count(rewritten, 'partition')} to replace" + (f": {names}" if names else "")] if rewritten else []
        facts["partitions"] = "; ".join(parts)
    return facts


def describe_publish_request(status: Json) -> Json:
    """Describe the last publish request; nothing without one."""
    request = status["publish_request"]
    if request is None:
        return {}
    return {"publish requested": f"{moment(request['at'])}, {request['step']}: {request['message']}"}


def describe_downgrade_wait(preview: Json) -> list[str]:
    """Describe why a downgrade waits, and for which writers; no line if it does not wait."""
    if preview["ends_after"] is None or preview["blocked"]:
        return []
    skip = "--no-wait-for-writers skips the wait"
    lines = [f"{preview['table']} waits until {moment(preview['ends_after'])}: {preview['wait']}; {skip}"]
    lines += [
        f"{writer['holder']} has a lock on {writer['partition'] or 'the table'}"
        + (f" since {moment(writer['since'])}" if writer["since"] else "")
        for writer in preview["writers"]
    ]
    if not preview["writers"]:
        author = f"; {preview['likely_author']}" if preview["likely_author"] else ""
        lines.append(f"no writer holds a lock on {preview['table']} now; Spark takes none{author}")
    return lines


def describe_superseded_directories(superseded: Json | None) -> Json:
    """Describe the directories that publishes replaced; nothing without any."""
    facts: Json = {}
    if superseded and superseded["directories"]:
        watched = f"{_count_directories(superseded['directories'])} ({size(superseded['bytes'])})"
        facts["superseded directories"] = f"{watched}, watched until {moment(superseded['grace_until'])}"
    if superseded and superseded["kept_directories"]:
        kept = f"{_count_directories(superseded['kept_directories'])} ({size(superseded['kept_bytes'])})"
        facts["replaced originals"] = f"{kept}, which Hive no longer reads and Firn never deletes"
    return facts


def _count_directories(count: int) -> str:
    return "1 directory" if count == 1 else f"{count:,} directories"
