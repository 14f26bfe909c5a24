"""All policy properties: default, parser and description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.policy.schedule import parse_schedule, parse_tag_name, parse_time_zone, parse_windows
from catalog.policy.trigger import parse_trigger
from catalog.policy.units import (
    parse_at_least,
    parse_at_most,
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
    _make_flag("firn.optimize.enabled", "true", "whether the planner plans jobs"),
    Setting("firn.optimize.group", "default", parse_group, "the group of optimizers that runs its jobs"),
    _make_choice(
        "firn.optimize.priority",
        "normal",
        ("low", "normal", "high"),
        "how long its jobs may wait behind others: with high a quarter of the usual time, with low four times",
    ),
    Setting(
        "firn.optimize.quota",
        "0.5",
        parse_share,
        "share of its group's time in an hour above which its jobs wait longer",
    ),
    Setting(
        "firn.optimize.window",
        "",
        parse_optional(parse_windows),
        "when jobs may begin, such as 0 22 * * * for 8 h; separate several by semicolons; empty: always",
    ),
    Setting(
        "firn.optimize.not-during",
        "",
        parse_optional(parse_windows),
        "when no job may begin, in the form of the window",
    ),
    Setting("firn.optimize.time-zone", "UTC", parse_time_zone, "the time zone of windows and schedules"),
)

_MERGE = (
    _make_choice(
        "firn.merge.mode",
        "auto",
        ("auto", "rewrite", "vectors", "adopt"),
        "how a merge changes base: rewrite overwrites touched partitions, vectors adds delete files, "
        "adopt adds them without Spark, auto chooses",
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
        "condition instead of these limits, such as rows >= 500000 or (commits >= 20 and age >= 5 min)",
    ),
    Setting("firn.merge.schedule", "", _WHEN, "cron schedule of merges of all pending changes"),
    Setting(
        "firn.merge.max-job-rows",
        "20000000",
        parse_count,
        "most pending rows that one job merges; more take several jobs, the oldest commits first",
    ),
    Setting(
        "firn.tombstone.max-age",
        "7 d",
        parse_duration,
        "how long merged deletes stay, so that late changes with a lower sequence value lose",
    ),
)

_READ = (
    _make_choice(
        "firn.read.format-version",
        "2",
        ("2", "3"),
        "format version in which engines read a keyed table; 3 has deletion vectors, which fewer engines know",
    ),
    Setting(
        "firn.read.max-wait",
        "5 s",
        parse_at_most("60 s"),
        "how long a reader of a keyed table waits until it sees the newest commit",
    ),
    _make_choice(
        "firn.read.on-timeout",
        "older",
        ("older", "refuse"),
        "what a reader gets that has waited so long: the newest state that is ready, or a 503 to try again",
    ),
    Setting(
        "firn.read.keep",
        "1 d",
        parse_duration,
        "how long the files of a keyed table's state are kept after it was last served",
    ),
)

_FILES = (
    Setting("firn.rewrite.target-file-size", "128 MiB", parse_size, "size of the files that a rewrite writes"),
    Setting("firn.rewrite.small-file-size", "96 MiB", parse_size, "size below which a file is small"),
    Setting("firn.rewrite.min-files", "20", parse_count, "small files that make a rewrite due, if it can pack them"),
    Setting(
        "firn.rewrite.max-delete-ratio",
        "0.2",
        parse_share,
        "share of deleted rows that makes a rewrite of data files due",
    ),
    _make_choice(
        "firn.rewrite.strategy",
        "binpack",
        ("binpack", "sort", "zorder"),
        "order of rows in rewritten files: binpack keeps it, sort sorts them, zorder sorts them along a z-order curve",
    ),
    Setting(
        "firn.rewrite.sort-order",
        "",
        parse_optional(parse_columns),
        "columns to sort or z-order by; empty: the table's own sort order",
    ),
    Setting(
        "firn.rewrite.filter",
        "",
        parse_optional(parse_text),
        "SQL condition; a rewrite takes only files that may have matching rows",
    ),
    Setting(
        "firn.rewrite.max-job-size",
        "10 GiB",
        parse_size,
        "most bytes that one job rewrites; more take several jobs",
    ),
    Setting("firn.rewrite.schedule", "", _WHEN, "cron schedule of rewrites of all small files"),
    Setting("firn.compact.min-files", "10", parse_count, "small files of a change store that make a compaction due"),
    Setting(
        "firn.compact.target-file-size",
        "64 MiB",
        parse_size,
        "size of the packed files of a change store",
    ),
    Setting("firn.deletes.min-files", "10", parse_count, "delete files that make a rewrite of delete files due"),
    Setting("firn.manifests.max-count", "100", parse_count, "manifests that make a rewrite of manifests due"),
)

_KEEPING = (
    Setting("firn.expire.max-age", "5 d", parse_duration, "how long a snapshot stays after it stopped being the head"),
    Setting("firn.expire.min-snapshots", "10", parse_count, "newest snapshots that stay at any age"),
    Setting(
        "firn.expire.max-snapshots",
        "",
        parse_optional(parse_count),
        "most snapshots of a table or store; more go once they are two hours old; empty: 500 for tables with a log, no "
        "limit for others",
    ),
    Setting(
        "firn.expire.schedule", "", _WHEN, "cron schedule of snapshot expiry; empty: as soon as snapshots may expire"
    ),
    Setting(
        "firn.orphans.min-age",
        "3 d",
        _ORPHAN_AGE,
        "least age of an orphan; at least 3 d",
    ),
    Setting("firn.orphans.schedule", "0 3 * * 0", _WHEN, "cron schedule of orphan removal; empty: never"),
    Setting(
        "firn.orphans.quarantine",
        "7 d",
        parse_duration,
        "how long orphans stay in quarantine before Firn deletes them",
    ),
    Setting("firn.ttl.field", "", parse_optional(parse_text), "date or timestamp column with the age of a row"),
    Setting("firn.ttl.max-age", "", parse_optional(parse_duration), "age at which Firn deletes rows; empty: never"),
    _make_flag(
        "firn.ttl.whole-partitions",
        "true",
        "whether rows wait until their whole partition is old enough, if that column's time partitions the table",
    ),
    _make_flag(
        "firn.ttl.at-read",
        "false",
        "whether reads of a keyed table hide rows that are too old, before Firn deletes them",
    ),
    Setting("firn.ttl.schedule", "0 4 * * *", _WHEN, "cron schedule of deleting old rows"),
    Setting(
        "firn.statistics.columns",
        "",
        parse_optional(parse_columns),
        "columns whose distinct values Firn counts for query planning",
    ),
    Setting("firn.statistics.schedule", "0 5 * * 0", _WHEN, "cron schedule of counting distinct values"),
    Setting("firn.tags.schedule", "", _WHEN, "cron schedule of tagging the head; empty: never"),
    Setting(
        "firn.tags.name",
        "auto-%Y-%m-%dT%H-%M",
        parse_tag_name,
        "name of these tags, with the time in strftime's format",
    ),
    Setting("firn.tags.max-age", "30 d", parse_duration, "how long these tags stay"),
)

_CONSUMERS = (
    Setting(
        "firn.consumers.max-age",
        "7 d",
        parse_duration,
        "how long expiry keeps the changes that a consumer has not read, after it last moved",
    ),
)

_PIPELINES = (
    Setting(
        "firn.pipeline.keep-inputs",
        "14 d",
        parse_duration,
        "how long expiry keeps the states of inputs that the rows of a pipeline's table come from",
    ),
)

_HIVE = (
    Setting(
        "firn.hive.sync.interval", "60 s", parse_duration, "pause between two syncs of a table that is linked to Hive"
    ),
    Setting(
        "firn.hive.sync.sweep",
        "1 h",
        parse_duration,
        "pause between two syncs that list every directory, also of partitions that seem unchanged",
    ),
    Setting(
        "firn.hive.publish.interval",
        "10 min",
        parse_unless_never(parse_duration),
        "pause between two publishes, from the first requested one; never: only on request",
    ),
    Setting(
        "firn.hive.superseded-dir-grace",
        "1 d",
        parse_duration,
        "how long syncs still list a directory that a publish replaced, for Hive jobs that began before",
    ),
    Setting(
        "firn.hive.publish.location",
        "",
        parse_optional(parse_text),
        "directory of published partitions; empty: beside the tables in the catalog's warehouse",
    ),
    Setting(
        "firn.hive.overwrite-window",
        "1 h",
        parse_duration,
        "how long after files vanished new files in their partition count as the same overwrite",
    ),
    _make_flag(
        "firn.hive.overwrite-wins",
        "false",
        "whether Hive's files win if both sides changed the files of a plain table's partition",
    ),
    _make_choice(
        "firn.hive.schema-conflict",
        "ask",
        ("ask", "hive", "firn"),
        "whose column wins if both sides changed it; ask: both sides keep theirs",
    ),
    _make_choice(
        "firn.hive.schema-push",
        "additions",
        ("none", "additions", "all"),
        "column changes that Firn writes to Hive: additions are new columns and comments after the first publish",
    ),
    _make_choice(
        "firn.hive.keyed-sync",
        "upsert",
        ("upsert", "append-without-check"),
        "how a sync takes rows that Hive adds to a keyed table; append-without-check assumes that their keys are new",
    ),
    _make_choice(
        "firn.hive.subdirectories",
        "ask",
        ("ask", "read", "ignore"),
        "whether files in subdirectories of a table or partition belong to it; ask: the upgrade waits for your choice",
    ),
)

SETTINGS: Mapping[str, Setting] = {
    setting.key: setting
    for setting in (*_OPTIMIZE, *_MERGE, *_READ, *_FILES, *_KEEPING, *_CONSUMERS, *_PIPELINES, *_HIVE)
}
