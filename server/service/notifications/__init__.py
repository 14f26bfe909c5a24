"""Notifications: rules, the problems that they report, and the delivery of their messages."""
