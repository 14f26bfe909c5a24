"""Facts about an upgraded table and Hive: drift, unpublished changes, the last publish request, retired directories."""

from __future__ import annotations

from firn.cli.context import CliContext
from firn.cli.show import moment, size
from firn.errors import Unavailable
from firn.transport import Json


def describe_drift(found: Json) -> Json:
    """Describe the drift: since when, and who probably caused it. The columns have a table of their own."""
    if not found["drift"]:
        return {}
    is_all = found["drift_kind"] == "columns"
    told = "the columns below wait for somebody's decision" if is_all else found["drift"]
    return {"differs": f"{told} (since {moment(found['drift_since'])})", "who may know": found["likely_author"]}


def load_publish_gap(ctx: CliContext, table: str) -> Json | None:
    """Load how many partitions Hive lacks of a plain table; None while the metastore does not answer."""
    try:
        return ctx.client.hive.behind(table)
    except Unavailable:
        return None


def describe_publish_gap(found: Json, behind: Json | None = None) -> Json:
    """Describe the changes that Hive lacks: by rows of a keyed table, by partitions of a plain one."""
    left = found["unpublished"]
    if behind is not None:
        return {"not in Hive yet": _describe_partitions(behind)}
    if left is None:
        return {}
    if not left["commits"]:
        return {"not in Hive yet": "nothing: Hive has every change"}
    changes = f"{left['rows']:,} changes in {left['commits']:,} commits ({size(left['bytes'])})"
    return {"not in Hive yet": f"{changes}, the oldest of {moment(left['since'])}"}


def _describe_partitions(behind: Json) -> str:
    if not behind["differing"]:
        return "nothing: Hive lists the table's own files"
    partitions = "1 partition differs" if behind["differing"] == 1 else f"{behind['differing']:,} partitions differ"
    return partitions if behind["since"] is None else f"{partitions}, since {moment(behind['since'])}"


def describe_publish_request(found: Json) -> Json:
    """Describe the last publish request; nothing without one."""
    asked = found["publish_request"]
    if asked is None:
        return {}
    return {"publish asked for": f"{moment(asked['at'])}, {asked['step']}: {asked['message']}"}


def describe_retired_directories(retired: Json | None) -> Json:
    """Describe the directories that publishes replaced; nothing without any."""
    told: Json = {}
    if retired and retired["directories"]:
        told["left behind"] = f"{_directories(retired['directories'])} ({size(retired['bytes'])}), watched until"
        told["left behind"] += f" {moment(retired['grace_until'])}"
    if retired and retired["kept_directories"]:
        kept = f"{_directories(retired['kept_directories'])} ({size(retired['kept_bytes'])})"
        told["replaced originals"] = f"{kept}, which Hive reads no more and Firn never deletes"
    return told


def _directories(count: int) -> str:
    return "1 directory" if count == 1 else f"{count:,} directories"
