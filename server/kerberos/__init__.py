"""Kerberos without Java and without `kinit`: MIT's GSSAPI takes tickets from a keytab and renews them (decision 89)."""
