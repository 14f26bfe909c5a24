"""What Kerberos refuses, in the library's own words, and what an operator can do about it."""

from __future__ import annotations

_CLOCKS = "the clocks of this machine and of the other differ by more than five minutes: correct them"
_HINTS = {
    -1765328383: "the principal has expired in the realm: ask its administrator to extend it",
    -1765328378: "the realm does not know the principal: correct hadoop.principal, or have it created",
    -1765328377: "the realm does not know the service: correct hive.kerberos_principal",
    -1765328366: "the principal is locked in the realm: ask its administrator to unlock it",
    -1765328361: "the principal's password has expired in the realm: have it renewed, and export the keytab again",
    -1765328360: "the realm has a newer key: export the keytab again",
    -1765328353: "the keys differ: export the keytab again, and check that the service uses its newest one",
    -1765328351: _CLOCKS,
    -1765328347: _CLOCKS,
    -1765328236: _CLOCKS,
    -1765328230: "krb5.conf does not know the realm: name it there under [realms], or correct the principal",
    -1765328228: "no KDC answers: check that one runs, and its address in krb5.conf",
    -1765328203: "the keytab has no key of the principal: export it again, or correct hadoop.principal",
    -1765328174: "the realm has a newer key with other encryption types: export the keytab again",
    -1765328164: "the KDC's host name has no address: correct it in krb5.conf",
}
"""By the library's error code (`krb5.h`)."""


class KerberosError(OSError):
    """A refusal by Kerberos; its text says what to do. `code` is the library's, 0 if there is none."""

    def __init__(self, text: str, code: int = 0) -> None:
        hint = _HINTS.get(code)
        super().__init__(text if hint is None else f"{text}; {hint}")
        self.code = code
