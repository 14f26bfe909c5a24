"""Security headers of every answer: which scripts may run in a page, and that no other site may embed it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

Header = tuple[bytes, bytes]

_PROGRAMS = ("/api/", "/iceberg/", "/metrics", "/healthz", "/readyz")
_ALWAYS: Sequence[Header] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_PAGE = b"default-src 'none'; frame-ancestors 'none'"


def console_policy(oidc_issuer: str | None) -> str:
    """The Content-Security-Policy of the console's pages: scripts are files of this server, and never in a page's text.

    Styles may be: the console's components put rules into the page, which run nothing. Where people sign in at an
    issuer, the page asks it for tokens; where those are given, the issuer says only then, so any https address may be.
    """
    connect = ["'self'"]
    if oidc_issuer is not None:
        address = urlsplit(oidc_issuer)
        connect += [f"{address.scheme}://{address.netloc}", "https:"]
    rules = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self' data:",
        "connect-src": " ".join(dict.fromkeys(connect)),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


class SecurityHeaders:
    """The headers by path: answers to programs are not pages, and may run nothing when a browser shows them."""

    def __init__(self, oidc_issuer: str | None = None) -> None:
        self._programs = (*_ALWAYS, (b"content-security-policy", _NO_PAGE))
        self._pages = (*_ALWAYS, (b"content-security-policy", console_policy(oidc_issuer).encode("ascii")))

    def of(self, path: str) -> Sequence[Header]:
        """Get the security headers of the answer for a path."""
        return self._programs if path.startswith(_PROGRAMS) else self._pages
