"""Who may do what: principals, roles, privileges, tokens, and the audit log of what was asked and decided."""
