"""What a change to access control is about, for the audit log: what it demands is on no table that would tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catalog.access import Securable
from catalog.names import CatalogName
from server.guard.demands import About, Asked


def principal(kind: str) -> Callable[[Asked], About]:
    """A user or a service, by the path or, a new one, by the body."""
    return lambda asked: About(f"{kind} {_named(asked, 'name')}")


def role(asked: Asked) -> About:
    """A role that is created or dropped."""
    return About(f"role {_named(asked, 'role')}")


def member(asked: Asked) -> About:
    """Who gets or loses a role."""
    return About(f"role {asked.path['role']}", f"member {asked.path['name']}")


def grant(asked: Asked) -> About:
    """What a role is given, or is taken from it."""
    return About(f"role {asked.path['role']}", f"{_listed(asked.body, 'privileges')} on {_scope(asked.body.get('on'))}")


def new_token(asked: Asked) -> About:
    """Whose it will be, and to what it is cut down."""
    owner = asked.body.get("owner")
    limits = [f"{key} {_listed(asked.body, key)}" for key in ("roles", "catalogs") if asked.body.get(key) is not None]
    return About("token", "; ".join([f"{_named(asked, 'name')} of {owner or 'themselves'}", *limits]))


def token(asked: Asked) -> About:
    """One that ends."""
    return About(f"token {asked.path['token_id']}")


def _named(asked: Asked, parameter: str) -> str:
    """The route has not looked at the body yet: it may hold anything."""
    return str(asked.path.get(parameter) or asked.body.get("name"))


def _listed(body: Mapping[str, Any], key: str) -> str:
    values = body.get(key)
    return ", ".join(map(str, values)) if isinstance(values, list) else str(values)


def _scope(on: object) -> str:
    if not isinstance(on, dict):
        return str(on)
    catalog, namespace, table = on.get("catalog"), on.get("namespace") or [], on.get("table")
    if not (isinstance(catalog, str) or catalog is None) or not isinstance(namespace, list):
        return str(on)
    name = None if table is None else str(table)
    return str(Securable(None if catalog is None else CatalogName(catalog), tuple(map(str, namespace)), name))
