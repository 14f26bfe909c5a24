"""Names of Kerberos principals in settings: `NAME[/HOST][@REALM]`."""

from __future__ import annotations

import re

HOST = "_HOST"
"""What stands for a host's name in a principal, as in Hadoop's own files."""
_PRINCIPAL = re.compile(r"[^/@\s]+(?P<host>/[^/@\s]+)?(@[^/@\s]+)?")


def check_principal(name: str, *, needs_host: bool = False) -> str:
    """The principal, if its form is right; ValueError shows the right form."""
    match = _PRINCIPAL.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no principal: write NAME, NAME/HOST, NAME@REALM or NAME/HOST@REALM")
    if needs_host and match["host"] is None:
        raise ValueError(f"{name!r} has no host: write SERVICE/HOST or SERVICE/HOST@REALM, with {HOST} for the address")
    return name
