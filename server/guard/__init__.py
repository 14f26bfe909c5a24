"""Access control of both APIs: authentication, the privileges that each route requires, and the audit log.

Routes contain no access control, except lists, which filter by what the caller may see (VisibilityDep).
"""
