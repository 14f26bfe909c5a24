"""All policy properties: default, parser and description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.policy.schedule import parse_schedule, parse_tag_name, parse_time_zone, parse_windows
from catalog.policy.trigger import parse_trigger
from catalog.policy.units import (
    parse_at_least,
    parse_columns,
    parse_count,
    parse_duration,
    parse_flag,
    parse_group,
    parse_one_of,
    parse_optional,
    parse_share,
    parse_size,
    parse_text,
    parse_unless_never,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One policy property."""

    key: str
    default: str
    parse: Callable[[str], Any]
    does: str
    choices: tuple[str, ...] = ()
    """The allowed values; empty if there is no fixed list."""


def _make_choice(key: str, default: str, choices: tuple[str, ...], does: str) -> Setting:
    return Setting(key, default, parse_one_of(*choices), does, choices)


def _make_flag(key: str, default: str, does: str) -> Setting:
    return Setting(key, default, parse_flag, does, ("true", "false"))


_WHEN = parse_optional(parse_schedule)
_ORPHAN_AGE = parse_at_least("3 d")
"""At least this long, because a slow writer's files look like orphans until it commits."""

_OPTIMIZE = (
    _make_flag("firn.optimize.enabled", "true", "whether jobs are planned at all"),
    Setting("firn.optimize.group", "default", parse_group, "the group of optimizers that runs its jobs"),
    _make_choice(
        "firn.optimize.priority",
        "normal",
        ("low", "normal", "high"),
        "how long its jobs may wait behind those of others: high a quarter as long, low four times",
    ),
    Setting(
        "firn.optimize.quota",
        "0.5",
        parse_share,
        "share of its group's time within an hour from which on its jobs stand back",
    ),
    Setting(
        "firn.optimize.window",
        "",
        parse_optional(parse_windows),
        "when jobs may begin, such as 0 22 * * * for 8 h; several with a semicolon between; empty means always",
    ),
    Setting(
        "firn.optimize.not-during", "", parse_optional(parse_windows), "when no job may begin, written like the window"
    ),
    Setting("firn.optimize.time-zone", "UTC", parse_time_zone, "the time zone of windows and schedules"),
)

_MERGE = (
    _make_choice(
        "firn.merge.mode",
        "auto",
        ("auto", "rewrite", "vectors"),
        "how changes get into base: overwriting touched partitions, by delete files, or as sizes suggest",
    ),
    Setting("firn.merge.max-pending-rows", "500000", parse_count, "pending rows that make a merge due"),
    Setting("firn.merge.max-pending-bytes", "64 MiB", parse_size, "pending bytes that make a merge due"),
    Setting("firn.merge.max-pending-commits", "20", parse_count, "pending commits that make a merge due"),
    Setting(
        "firn.merge.max-pending-age",
        "10 min",
        parse_duration,
        "age of the oldest pending change that makes a merge due",
    ),
    Setting(
        "firn.merge.trigger",
        "",
        parse_optional(parse_trigger),
        "what makes a merge due instead of these limits, such as rows >= 500000 or (commits >= 20 and age >= 5 min)",
    ),
    Setting("firn.merge.schedule", "", _WHEN, "when to merge whatever is pending, as cron writes it"),
    Setting(
        "firn.merge.max-job-rows",
        "20000000",
        parse_count,
        "pending rows that one job merges; a longer backlog takes several, the oldest commits first",
    ),
    Setting(
        "firn.tombstone.max-age",
        "7 d",
        parse_duration,
        "how long merged deletes are kept to beat late changes (with a sequence field)",
    ),
)

_FILES = (
    Setting("firn.rewrite.target-file-size", "128 MiB", parse_size, "size of the files that a rewrite writes"),
    Setting("firn.rewrite.small-file-size", "96 MiB", parse_size, "below this a file counts as small"),
    Setting(
        "firn.rewrite.min-files", "20", parse_count, "small files that can be packed, from which on a rewrite is due"
    ),
    Setting(
        "firn.rewrite.max-delete-ratio",
        "0.2",
        parse_share,
        "share of rows that delete files take away from which on data files are written anew",
    ),
    _make_choice(
        "firn.rewrite.strategy",
        "binpack",
        ("binpack", "sort", "zorder"),
        "what a rewrite does besides packing: nothing, sort rows, or sort them along a z-order curve",
    ),
    Setting(
        "firn.rewrite.sort-order",
        "",
        parse_optional(parse_columns),
        "columns to sort or z-order by; empty means the table's own sort order",
    ),
    Setting(
        "firn.rewrite.filter", "", parse_optional(parse_text), "SQL condition on columns: only files that may match"
    ),
    Setting(
        "firn.rewrite.max-job-size",
        "10 GiB",
        parse_size,
        "bytes that one job rewrites; what is left takes further jobs",
    ),
    Setting("firn.rewrite.schedule", "", _WHEN, "when to rewrite whatever is small, as cron writes it"),
    Setting("firn.compact.min-files", "10", parse_count, "small files of a change store that are packed together"),
    Setting(
        "firn.compact.target-file-size",
        "64 MiB",
        parse_size,
        "size at which a packed file of a change store is full and the next one begins",
    ),
    Setting("firn.deletes.min-files", "10", parse_count, "delete files that are packed or dropped together"),
    Setting("firn.manifests.max-count", "100", parse_count, "manifests from which on they are written anew"),
)

_KEEPING = (
    Setting(
        "firn.expire.max-age", "5 d", parse_duration, "how long a snapshot is kept after it stopped being the head"
    ),
    Setting("firn.expire.min-snapshots", "10", parse_count, "newest snapshots that are kept whatever their age"),
    Setting("firn.expire.schedule", "", _WHEN, "when to expire what may go, as cron writes it; empty: when it may go"),
    Setting(
        "firn.orphans.min-age",
        "3 d",
        _ORPHAN_AGE,
        "age below which a file is never taken for an orphan; at least 3 d",
    ),
    Setting("firn.orphans.schedule", "0 3 * * 0", _WHEN, "when to look for orphans, as cron writes it; empty: never"),
    Setting(
        "firn.orphans.quarantine",
        "7 d",
        parse_duration,
        "how long orphans lie aside, to be restored, before they are deleted",
    ),
    Setting("firn.ttl.field", "", parse_optional(parse_text), "column of time that tells how old a row is"),
    Setting("firn.ttl.max-age", "", parse_optional(parse_duration), "age from which on rows are deleted; empty: never"),
    _make_flag(
        "firn.ttl.whole-partitions",
        "true",
        "whether rows wait for the rest of their partition, where the table is partitioned by the time of that column",
    ),
    Setting("firn.ttl.schedule", "0 4 * * *", _WHEN, "when to delete what is too old, as cron writes it"),
    Setting(
        "firn.statistics.columns",
        "",
        parse_optional(parse_columns),
        "columns whose numbers of distinct values are kept for query planning",
    ),
    Setting("firn.statistics.schedule", "0 5 * * 0", _WHEN, "when to count distinct values anew, as cron writes it"),
    Setting("firn.tags.schedule", "", _WHEN, "when to tag the head, as cron writes it; empty: never"),
    Setting("firn.tags.name", "auto-%Y-%m-%dT%H-%M", parse_tag_name, "name of such a tag, as strftime writes times"),
    Setting("firn.tags.max-age", "30 d", parse_duration, "how long such a tag is kept"),
)

_HIVE = (
    Setting("firn.hive.sync.interval", "60 s", parse_duration, "pause between two syncs of a table linked to Hive"),
    Setting(
        "firn.hive.sync.sweep",
        "1 h",
        parse_duration,
        "pause between two syncs that list every directory, whatever the metastore says of it",
    ),
    Setting(
        "firn.hive.publish.interval",
        "10 min",
        parse_unless_never(parse_duration),
        "pause between two publishes of what has changed to a Hive table, from the first that was asked "
        "for; never: when somebody asks",
    ),
    Setting(
        "firn.hive.retired-dir-grace",
        "1 d",
        parse_duration,
        "how long the directory that a partition was at before a publish is looked at, for writers that began before",
    ),
    Setting(
        "firn.hive.publish.location",
        "",
        parse_optional(parse_text),
        "where published partitions lie; empty: in the catalog's warehouse, beside the tables",
    ),
    Setting(
        "firn.hive.overwrite-window",
        "1 h",
        parse_duration,
        "how long after files have vanished what comes into their partition belongs to the same overwrite",
    ),
    _make_flag(
        "firn.hive.overwrite-wins",
        "false",
        "whether a plain table's partition becomes what Hive lists where both sides have changed its files",
    ),
    _make_choice(
        "firn.hive.schema-conflict",
        "ask",
        ("ask", "hive", "firn"),
        "whose column counts where both sides have changed one; ask: it stays on both sides as it is",
    ),
    _make_choice(
        "firn.hive.schema-push",
        "additions",
        ("none", "additions", "all"),
        "what Hive's table is given of changed columns: new ones and comments once it was published, or all",
    ),
    _make_choice(
        "firn.hive.keyed-sync",
        "upsert",
        ("upsert", "append-without-check"),
        "what rows that Hive-side writers add to a keyed table become; append-without-check: new keys, not checked",
    ),
    _make_choice(
        "firn.hive.subdirectories",
        "ask",
        ("ask", "read", "ignore"),
        "whether files in sub-directories of a table or partition count; ask: it waits until somebody says so",
    ),
)

SETTINGS: Mapping[str, Setting] = {
    setting.key: setting for setting in (*_OPTIMIZE, *_MERGE, *_FILES, *_KEEPING, *_HIVE)
}
