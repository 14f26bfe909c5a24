"""Policies of catalogs and namespaces, and how every policy is shown."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.access.privileges import Privilege
from catalog.names import Namespace, parse_namespace
from catalog.policy.authority import need_write_privilege
from catalog.policy.policy import Policy, Sourced
from catalog.policy.settings import SETTINGS
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep
from server.api.errors import refusals
from server.service.planning.policies import ScopedPolicy

router = APIRouter(prefix="/catalogs/{catalog}/policy", tags=["policies"])

NamespaceQuery = Annotated[str | None, Query()]


class IgnoredOut(Out):
    """A value that cannot be read, and therefore does not hold."""

    value: str
    source: str
    reason: str


class SettingOut(Out):
    """One policy setting as it holds somewhere. `choices` are all that it may be, where that is one of a few.

    `takes` are the privileges that it takes to set it for a catalog or namespace.
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
    """What is set for a catalog or namespace itself, and every setting as it holds there."""

    settings: dict[str, str]
    effective: list[SettingOut]

    @classmethod
    def of(cls, scoped: ScopedPolicy) -> PolicyOut:
        """A policy as it is shown."""
        return cls(settings=dict(scoped.own), effective=settings_out(scoped.policy))


def settings_out(policy: Policy) -> list[SettingOut]:
    """Every setting with where it comes from."""
    return [_setting_out(key, one) for key, one in sorted(policy.explained().items())]


def _setting_out(key: str, one: Sourced) -> SettingOut:
    return SettingOut(
        key=key,
        value=one.text,
        source=one.source,
        default=SETTINGS[key].default,
        does=SETTINGS[key].does,
        choices=list(SETTINGS[key].choices),
        takes=[Privilege.MAINTAIN, *([Privilege.WRITE] if need_write_privilege([key]) else [])],
        ignored=[IgnoredOut(value=said.text, source=said.source, reason=said.reason) for said in one.ignored],
    )


@router.get("", summary="Show a policy", responses=refusals(404))
def show_policy(services: ServicesDep, catalog: CatalogDep, namespace: NamespaceQuery = None) -> PolicyOut:
    """What is set for the catalog, or for one namespace of it, and what holds there."""
    return PolicyOut.of(services.policies.show(catalog, _scope(namespace)))


@router.put("", summary="Set a policy", responses=refusals(400, 404))
def set_policy(
    services: ServicesDep, catalog: CatalogDep, body: PolicyIn, namespace: NamespaceQuery = None
) -> PolicyOut:
    """Replace what is set for the catalog, or for one namespace of it; tables inherit it."""
    return PolicyOut.of(services.policies.replace(catalog, _scope(namespace), body.settings))


@router.patch("", summary="Change a policy", responses=refusals(400, 404))
def change_policy(
    services: ServicesDep, catalog: CatalogDep, body: PolicyChangeIn, namespace: NamespaceQuery = None
) -> PolicyOut:
    """Set and remove single settings of the catalog, or of one namespace of it; the others stay."""
    changed = services.policies.change(catalog, _scope(namespace), updates=body.set, removals=body.remove)
    return PolicyOut.of(changed)


def _scope(namespace: str | None) -> Namespace:
    return parse_namespace(namespace) if namespace else ()
