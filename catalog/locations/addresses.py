"""Addresses of other servers that users name, and to which this server connects."""

from __future__ import annotations

import ipaddress

from catalog.errors import Invalid


def check_address(host: str) -> None:
    """Invalid for a link-local, unspecified or multicast address. Names pass; they are
    checked once they are resolved.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast:
        raise Invalid(f"{host} is no address of another server")
