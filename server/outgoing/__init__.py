"""Requests and mails to servers that users or operators name; no answer of theirs is trusted."""
