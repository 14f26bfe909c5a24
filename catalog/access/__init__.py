"""Access control: principals, roles, privileges, tokens, and the audit log of requests and verdicts."""
