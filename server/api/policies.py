"""Policies of catalogs and namespaces, and the settings of every policy as the management API shows them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.access.privileges import Privilege
from catalog.names import Namespace, parse_namespace
from catalog.policy.authority import need_write_privilege
from catalog.policy.policy import Policy, Sourced
from catalog.policy.settings import SETTINGS
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep
from server.api.errors import refusals
from server.service.planning.policies import ScopedPolicy

router = APIRouter(prefix="/catalogs/{catalog}/policy", tags=["policies"])

NamespaceQuery = Annotated[str | None, Query()]


class IgnoredOut(Out):
    """A value that the server ignores because it cannot parse it."""

    value: str
    source: str
    reason: str


class SettingOut(Out):
    """One policy setting with its effective value. `choices` lists the values of an enumeration, else it is empty.

    `takes` lists the privileges that a caller needs to set it for a catalog or namespace.
    """

    key: str
    value: str
    source: str
    default: str
    does: str
    choices: list[str]
    takes: list[Privilege]
    ignored: list[IgnoredOut]


class PolicyIn(In):
    """Policy settings of a catalog or namespace."""

    settings: dict[str, str]


class PolicyChangeIn(In):
    """Policy settings to set and to remove."""

    set: dict[str, str] = {}
    remove: list[str] = []


class PolicyOut(Out):
    """The settings of a catalog or namespace itself, and the effective value of every setting there."""

    settings: dict[str, str]
    effective: list[SettingOut]

    @classmethod
    def of(cls, scoped: ScopedPolicy) -> PolicyOut:
        """Build the answer from a policy."""
        return cls(settings=dict(scoped.own), effective=build_settings_out(scoped.policy))


def build_settings_out(policy: Policy) -> list[SettingOut]:
    """List every setting with its value and source."""
    return [_describe_setting(key, setting) for key, setting in sorted(policy.explained().items())]


def _describe_setting(key: str, setting: Sourced) -> SettingOut:
    return SettingOut(
        key=key,
        value=setting.text,
        source=setting.source,
        default=SETTINGS[key].default,
        does=SETTINGS[key].does,
        choices=list(SETTINGS[key].choices),
        takes=[Privilege.MAINTAIN, *([Privilege.WRITE] if need_write_privilege([key]) else [])],
        ignored=[IgnoredOut(value=entry.text, source=entry.source, reason=entry.reason) for entry in setting.ignored],
    )


@router.get("", summary="Show a policy", responses=refusals(404))
def show_policy(services: ServicesDep, catalog: CatalogDep, namespace: NamespaceQuery = None) -> PolicyOut:
    """Show the settings of the catalog or of one of its namespaces, and the effective values."""
    return PolicyOut.of(services.policies.show(catalog, _parse_scope(namespace)))


@router.put("", summary="Set a policy", responses=refusals(400, 404))
def set_policy(
    services: ServicesDep, catalog: CatalogDep, body: PolicyIn, namespace: NamespaceQuery = None
) -> PolicyOut:
    """Replace the settings of the catalog or of one of its namespaces. Tables inherit them."""
    return PolicyOut.of(services.policies.replace(catalog, _parse_scope(namespace), body.settings))


@router.patch("", summary="Change a policy", responses=refusals(400, 404))
def change_policy(
    services: ServicesDep, catalog: CatalogDep, body: PolicyChangeIn, namespace: NamespaceQuery = None
) -> PolicyOut:
    """Set and remove single settings of the catalog or of one of its namespaces; the others stay."""
    changed = services.policies.change(catalog, _parse_scope(namespace), updates=body.set, removals=body.remove)
    return PolicyOut.of(changed)


def _parse_scope(namespace: str | None) -> Namespace:
    return parse_namespace(namespace) if namespace else ()
