"""Policies: an owner's settings for background work.

A policy is a table's properties over those of its namespace and catalog. Durations are written `10 min`, sizes `128
MiB`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from catalog.commits.rebase import REBASE
from catalog.errors import Invalid
from catalog.hive.conversion_commit import CONVERTED_FROM
from catalog.keyed.partial import PARTIAL
from catalog.keyed.spec import INSERT_ONLY, KEY_SCOPE, LOG_PREFIX, PRIMARY_KEY, SEQUENCE_FIELD
from catalog.policy.log_settings import check_log_setting
from catalog.policy.settings import SETTINGS
from catalog.policy.units import parse_flag
from catalog.tables.description import check_label_property
from firn.protocol.partial import is_merge_property

OWN = "firn."
"""The prefix of Firn's own properties."""
FIXED = (PRIMARY_KEY, SEQUENCE_FIELD, KEY_SCOPE, INSERT_ONLY, PARTIAL, CONVERTED_FROM)
"""Properties that define a table and are no policy."""
DEFAULT = "default"
"""The source of settings without a value of their own."""
RETENTION = "firn.drop.retention"
"""For a catalog: how long it keeps dropped tables and views."""
PROTECTED = "firn.protected"
"""For a table or namespace. It is no policy: nothing inherits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A text that counts as not set, its source, and the reason why it does not parse."""

    text: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """The text of one setting and its source: `default`, `catalog`, `namespace db` or `table`."""

    text: str
    source: str
    ignored: tuple[Ignored, ...] = ()
    """Unreadable texts of narrower sources, the narrowest last."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of one table."""

    values: Mapping[str, Sourced] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        """A setting's parsed value."""
        value, _ = _parse_setting(key, self.values.get(key, _get_default(key)).text)
        return value

    def is_default(self, key: str) -> bool:
        """Whether no source has a readable value."""
        return self.values.get(key, _get_default(key)).source == DEFAULT

    def restrict(self, is_kept: Callable[[str], bool]) -> Policy:
        """The policy in which all other settings have their defaults."""
        return Policy({key: value for key, value in self.values.items() if is_kept(key)})

    def explained(self) -> dict[str, Sourced]:
        """Every setting with its source."""
        return {key: self.values.get(key, _get_default(key)) for key in SETTINGS}


@lru_cache(maxsize=10_000)
def _parse_setting(key: str, text: str) -> tuple[Any, str | None]:
    """The value, or the reason why there is none. Cached, because many tables share few texts and each decision reads
    dozens.
    """
    try:
        return SETTINGS[key].parse(text), None
    except Invalid as error:
        return None, error.message


def merge_layers(layers: Sequence[tuple[str, Mapping[str, str]]]) -> Policy:
    """The policy of sources from the widest to the narrowest; the narrowest wins.

    A text that does not parse counts as not set. So a typo stops no job and does not hide a wider setting.
    """
    values: dict[str, Sourced] = {}
    for source, properties in layers:
        for key in properties.keys() & SETTINGS.keys():
            values[key] = _override(values.get(key, _get_default(key)), key, properties[key], source)
    return Policy(values)


def _get_default(key: str) -> Sourced:
    return Sourced(text=SETTINGS[key].default, source=DEFAULT)


def _override(wider: Sourced, key: str, text: str, source: str) -> Sourced:
    _, reason = _parse_setting(key, text)
    if reason is None:
        return Sourced(text=text, source=source)
    return replace(wider, ignored=(*wider.ignored, Ignored(text=text, source=source, reason=reason)))


def check_policy(settings: Mapping[str, str]) -> None:
    """Invalid if a catalog's or namespace's settings for its tables include a property that is no policy."""
    check_settings(settings)
    for key in sorted(settings.keys() - SETTINGS.keys()):
        raise Invalid(f"{key} is no policy property", hint=_suggest_settings(key))


def _check_flag(key: str, text: str) -> None:
    try:
        parse_flag(text)
    except Invalid as error:
        raise Invalid(f"{key}: {error.message}") from error


def check_settings(properties: Mapping[str, str]) -> None:
    """Invalid for an unknown property of Firn's, or for a policy that does not parse. Other properties pass."""
    for key, text in properties.items():
        if key in SETTINGS:
            try:
                SETTINGS[key].parse(text)
            except Invalid as error:
                raise Invalid(f"{key}: {error.message}", hint=error.hint) from error
        elif key.startswith(LOG_PREFIX):
            check_log_setting(key, text)
        elif key in (PROTECTED, REBASE):
            _check_flag(key, text)
        elif check_label_property(key, text):
            continue
        elif key.startswith(OWN) and key not in FIXED and not is_merge_property(key):
            raise Invalid(f"unknown policy property {key}", hint=_suggest_settings(key))


def _suggest_settings(key: str) -> str:
    """The known setting closest to a mistyped key; all of them if none is close."""
    full = key if key.startswith(OWN) else OWN + key
    nearest = get_close_matches(full, sorted(SETTINGS), n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(SETTINGS))}"
