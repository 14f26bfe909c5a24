"""Policies: what an owner has asked of the background work.

A policy is table properties over those of the namespace and the catalog. Durations are written `10 min`, sizes
`128 MiB`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from catalog.errors import Invalid
from catalog.keyed.spec import KEY_SCOPE, PRIMARY_KEY, SEQUENCE_FIELD
from catalog.policy.settings import SETTINGS
from catalog.policy.units import parse_flag
from catalog.rebase import REBASE

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
        sourced = self.values.get(key)
        return _parsed(key, SETTINGS[key].default if sourced is None else sourced.text)

    def explained(self) -> dict[str, Sourced]:
        """Every setting with where it comes from."""
        defaults = {key: Sourced(text=setting.default, source="default") for key, setting in SETTINGS.items()}
        return defaults | {key: sourced for key, sourced in self.values.items() if key in SETTINGS}


@lru_cache(maxsize=10_000)
def _parsed(key: str, text: str) -> Any:
    """Few texts hold for many tables, and a decision reads dozens of them."""
    try:
        return SETTINGS[key].parse(text)
    except Invalid:
        return SETTINGS[key].parse(SETTINGS[key].default)


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
