"""Access control: token check, privileges, audit log, and the administration of principals, roles and tokens."""
