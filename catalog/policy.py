"""Policies: what an owner has asked of the background work, with defaults, units and checks.

A policy is table properties over those of the namespace and the catalog. Durations are written `10 min`, sizes
`128 MiB`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from catalog.errors import Invalid
from catalog.keyed.spec import KEY_SCOPE, PRIMARY_KEY, SEQUENCE_FIELD
from catalog.rebase import REBASE

_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}
LONGEST = timedelta(days=36_500)
"""Counted back from now it still is a moment."""
HIGHEST = 2**62
LONGEST_GROUP = 255
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_duration(text: str) -> timedelta:
    """`90 s`, `10 min`, `5 d`; Invalid without a unit."""
    number, unit = _quantity(text)
    if unit.lower() not in _SECONDS:
        raise Invalid(f"{text!r} is not a duration", hint="write a number and one of ms, s, min, h, d, such as 10 min")
    seconds = number * _SECONDS[unit.lower()]
    if seconds > LONGEST.total_seconds():
        raise Invalid(f"{text!r} is longer than {LONGEST.days} days")
    return timedelta(seconds=seconds)


def parse_size(text: str) -> int:
    """`128 MiB`, `1.5 GB`, or plain bytes."""
    number, unit = _quantity(text)
    if unit.lower() not in _BYTES:
        raise Invalid(
            f"{text!r} is not a size", hint="write a number of bytes, or one with KiB, MiB, GiB, such as 128 MiB"
        )
    size = number * _BYTES[unit.lower()]
    if size > HIGHEST:
        raise Invalid(f"{text!r} is more than {HIGHEST} bytes")
    return int(size)


def parse_count(text: str) -> int:
    """A whole number, 1 at least."""
    if not text.strip().isdecimal() or len(text.strip()) > 18 or int(text) < 1:
        raise Invalid(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def parse_flag(text: str) -> bool:
    """`true` or `false`."""
    if text.strip().lower() not in ("true", "false"):
        raise Invalid(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def _group(text: str) -> str:
    if not 0 < len(text) <= LONGEST_GROUP:
        raise Invalid(f"{text!r} is no group of optimizers: its name has 1 to {LONGEST_GROUP} characters")
    return text


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise Invalid(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def _quantity(text: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise Invalid(f"{text!r} is not a number with a unit")
    return float(match[1]), match[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One policy property: its default as people write it, how it is read, and what it does."""

    key: str
    default: str
    parse: Callable[[str], Any]
    does: str


SETTINGS: Mapping[str, Setting] = {
    setting.key: setting
    for setting in (
        Setting(key="firn.optimize.enabled", default="true", parse=parse_flag, does="whether jobs are planned at all"),
        Setting(
            key="firn.optimize.group",
            default="default",
            parse=_group,
            does="the group of optimizers that runs its jobs",
        ),
        Setting(
            key="firn.merge.mode",
            default="auto",
            parse=_choice("auto", "rewrite", "vectors"),
            does="how changes get into base: overwriting touched partitions, by delete files, or as sizes suggest",
        ),
        Setting(
            key="firn.merge.max-pending-rows",
            default="500000",
            parse=parse_count,
            does="pending rows that make a merge due",
        ),
        Setting(
            key="firn.merge.max-pending-bytes",
            default="64 MiB",
            parse=parse_size,
            does="pending bytes that make a merge due",
        ),
        Setting(
            key="firn.merge.max-pending-commits",
            default="20",
            parse=parse_count,
            does="pending commits that make a merge due",
        ),
        Setting(
            key="firn.merge.max-pending-age",
            default="10 min",
            parse=parse_duration,
            does="age of the oldest pending change that makes a merge due",
        ),
        Setting(
            key="firn.rewrite.target-file-size",
            default="128 MiB",
            parse=parse_size,
            does="size of the files that a rewrite writes",
        ),
        Setting(
            key="firn.rewrite.small-file-size",
            default="96 MiB",
            parse=parse_size,
            does="below this a file counts as small",
        ),
        Setting(
            key="firn.rewrite.min-files",
            default="20",
            parse=parse_count,
            does="small files since the last rewrite that make one due",
        ),
        Setting(
            key="firn.expire.max-age",
            default="5 d",
            parse=parse_duration,
            does="how long a snapshot is kept after it stopped being the head",
        ),
        Setting(
            key="firn.expire.min-snapshots",
            default="10",
            parse=parse_count,
            does="newest snapshots that are kept whatever their age",
        ),
        Setting(
            key="firn.tombstone.max-age",
            default="7 d",
            parse=parse_duration,
            does="how long merged deletes are kept to beat late changes (with a sequence field)",
        ),
        Setting(
            key="firn.hive.sync.interval",
            default="60 s",
            parse=parse_duration,
            does="pause between two syncs of a table linked to Hive",
        ),
        Setting(
            key="firn.hive.keyed-sync",
            default="upsert",
            parse=_choice("upsert"),
            does="what rows that Hive-side writers add to a keyed table become",
        ),
    )
}


OWN = "firn."
"""What Firn's own properties begin with."""
FIXED = (PRIMARY_KEY, SEQUENCE_FIELD, KEY_SCOPE)
"""Those that are no policy: they say what a table is."""
PROTECTED = "firn.protected"
"""Of a table or namespace: no policy either, it is not inherited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """One setting's text and where it comes from: `default`, `catalog`, `namespace db` or `table`."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that hold for one table."""

    values: Mapping[str, Sourced] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        """A setting's value, parsed; one that does not parse counts as not set, so that a typo stops no job."""
        setting = SETTINGS[key]
        sourced = self.values.get(key)
        if sourced is not None:
            try:
                return setting.parse(sourced.text)
            except Invalid:
                pass
        return setting.parse(setting.default)

    def explained(self) -> dict[str, Sourced]:
        """Every setting with where it comes from."""
        defaults = {key: Sourced(text=setting.default, source="default") for key, setting in SETTINGS.items()}
        return defaults | {key: sourced for key, sourced in self.values.items() if key in SETTINGS}


def layered(layers: Sequence[tuple[str, Mapping[str, str]]]) -> Policy:
    """The policy out of sources from the widest to the narrowest: the narrowest wins."""
    values: dict[str, Sourced] = {}
    for source, properties in layers:
        values |= {key: Sourced(text=text, source=source) for key, text in properties.items() if key in SETTINGS}
    return Policy(values)


def check_policy(settings: Mapping[str, str]) -> None:
    """What a catalog or a namespace sets for its tables is policy and nothing else; Invalid says what is not."""
    check_settings(settings)
    for key in settings.keys() - SETTINGS.keys():
        raise Invalid(f"{key} is no policy property", hint=f"known are {', '.join(sorted(SETTINGS))}")


def _check_flag(key: str, text: str) -> None:
    try:
        parse_flag(text)
    except Invalid as error:
        raise Invalid(f"{key}: {error.message}") from error


def check_settings(properties: Mapping[str, str]) -> None:
    """Invalid for a property of Firn's that is unknown, or policy that does not parse; those of others pass."""
    for key, text in properties.items():
        if key in SETTINGS:
            try:
                SETTINGS[key].parse(text)
            except Invalid as error:
                raise Invalid(f"{key}: {error.message}", hint=error.hint) from error
        elif key in (PROTECTED, REBASE):
            _check_flag(key, text)
        elif key.startswith(OWN) and key not in FIXED:
            raise Invalid(f"unknown policy property {key}", hint=f"known are {', '.join(sorted(SETTINGS))}")
