"""What Kerberos refuses keeps the library's words, and says what an operator can do."""

from __future__ import annotations

import pytest

from server.files.hdfs_refusals import find_advice
from server.kerberos.errors import KerberosError


@pytest.mark.parametrize(
    ("code", "words", "hint"),
    [
        (-1765328347, "Clock skew too great", "the clocks of this machine and of the other differ by more than five"),
        (-1765328236, "Clock skew too great in KDC reply", "differ by more than five minutes: correct them"),
        (-1765328351, "Ticket not yet valid", "differ by more than five minutes: correct them"),
        (-1765328383, "Client's entry in database has expired", "the principal has expired in the realm"),
        (-1765328366, "Client's credentials have been revoked", "the principal is locked in the realm"),
        (-1765328361, "Password has expired", "have it renewed, and export the keytab again"),
        (-1765328164, "Cannot resolve network address for KDC in realm", "the KDC's host name has no address"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, words: str, hint: str) -> None:
    refused = KerberosError(words, code)
    assert str(refused).startswith(f"{words}; ")
    assert hint in str(refused)
    assert refused.code == code


def test_a_refusal_without_advice_keeps_its_words() -> None:
    assert str(KerberosError("something new", -1)) == "something new"


def test_clocks_that_differ_are_a_matter_of_kerberos_for_hdfs_too() -> None:
    words = "no Kerberos ticket for HDFS: Clock skew too great"
    assert str(find_advice(OSError(None, words))).startswith("Correct the clocks: those of this machine and of the KDC")


def test_a_ticket_that_a_name_node_refuses_is_explained() -> None:
    advice = str(find_advice(OSError(None, "SaslException: GSS initiate failed")))
    assert "clocks of this machine, of the KDC and of the name nodes" in advice
    assert "newest key" in advice
