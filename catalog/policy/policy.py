"""Policies: what an owner has asked of the background work.

A policy is table properties over those of the namespace and the catalog. Durations are written `10 min`, sizes
`128 MiB`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from catalog.commits.rebase import REBASE
from catalog.errors import Invalid
from catalog.hive.conversion_commit import CONVERTED_FROM
from catalog.keyed.spec import KEY_SCOPE, PRIMARY_KEY, SEQUENCE_FIELD
from catalog.policy.settings import SETTINGS
from catalog.policy.units import parse_flag

OWN = "firn."
"""What Firn's own properties begin with."""
FIXED = (PRIMARY_KEY, SEQUENCE_FIELD, KEY_SCOPE, CONVERTED_FROM)
"""Those that are no policy: they say what a table is."""
DEFAULT = "default"
"""The source of what nobody has set."""
RETENTION = "firn.drop.retention"
"""Of a catalog: how long it keeps dropped tables and views."""
PROTECTED = "firn.protected"
"""Of a table or namespace: no policy either, it is not inherited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A text that counts as not set, where it stands, and why it does not parse."""

    text: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """One setting's text and where it comes from: `default`, `catalog`, `namespace db` or `table`."""

    text: str
    source: str
    ignored: tuple[Ignored, ...] = ()
    """What narrower sources say instead and cannot be read, the narrowest last."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that hold for one table."""

    values: Mapping[str, Sourced] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        """A setting's value, parsed."""
        value, _ = _read(key, self.values.get(key, _default(key)).text)
        return value

    def is_default(self, key: str) -> bool:
        """Whether nobody has set it, at least not in a way that can be read."""
        return self.values.get(key, _default(key)).source == DEFAULT

    def explained(self) -> dict[str, Sourced]:
        """Every setting with where it comes from."""
        return {key: self.values.get(key, _default(key)) for key in SETTINGS}


@lru_cache(maxsize=10_000)
def _read(key: str, text: str) -> tuple[Any, str | None]:
    """The value, or why there is none. Few texts hold for many tables, and a decision reads dozens of them."""
    try:
        return SETTINGS[key].parse(text), None
    except Invalid as error:
        return None, error.message


def merge_layers(layers: Sequence[tuple[str, Mapping[str, str]]]) -> Policy:
    """The policy out of sources from the widest to the narrowest: the narrowest wins.

    A text that does not parse counts as not set, so that a typo stops no job and hides nothing that is wider.
    """
    values: dict[str, Sourced] = {}
    for source, properties in layers:
        for key in properties.keys() & SETTINGS.keys():
            values[key] = _over(values.get(key, _default(key)), key, properties[key], source)
    return Policy(values)


def _default(key: str) -> Sourced:
    return Sourced(text=SETTINGS[key].default, source=DEFAULT)


def _over(wider: Sourced, key: str, text: str, source: str) -> Sourced:
    _, reason = _read(key, text)
    if reason is None:
        return Sourced(text=text, source=source)
    return replace(wider, ignored=(*wider.ignored, Ignored(text=text, source=source, reason=reason)))


def check_policy(settings: Mapping[str, str]) -> None:
    """What a catalog or a namespace sets for its tables is policy and nothing else; Invalid says what is not."""
    check_settings(settings)
    for key in sorted(settings.keys() - SETTINGS.keys()):
        raise Invalid(f"{key} is no policy property", hint=_suggest_settings(key))


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
            raise Invalid(f"unknown policy property {key}", hint=_suggest_settings(key))


def _suggest_settings(key: str) -> str:
    """The known setting that a mistyped key is closest to; all of them where none is close."""
    full = key if key.startswith(OWN) else OWN + key
    nearest = get_close_matches(full, sorted(SETTINGS), n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(SETTINGS))}"
