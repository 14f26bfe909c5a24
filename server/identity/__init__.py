"""The identity of people: an OpenID Connect issuer, whose keys the server reads over HTTP."""
