"""Where people come from: an OpenID Connect issuer, asked over HTTP for its keys."""
