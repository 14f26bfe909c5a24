"""Notifications: rules that watch for problems, and the messages that they send."""
