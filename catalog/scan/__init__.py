"""Scan planning: which files of a table a reader has to open, decided for it by the server.

A request (request) names a filter (expression) over a table at a moment (scan).  Deletes are matched to data files
(deletes); what is too much for one answer is handed out in tasks of a plan (plan).  Read in this order.
"""
