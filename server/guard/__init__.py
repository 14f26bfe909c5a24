"""The gate of both APIs: who is asking, what each route needs, and a line in the audit log.

Routes know nothing of access control, except lists: they ask what their reader may see (VisibleDep).
"""
