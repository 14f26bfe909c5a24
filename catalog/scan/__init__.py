"""Scan planning: the server decides for a reader which files of a table it must open.

A request (request) names a filter (expression) over a table at a moment (scan). Deletes are matched to data files
(deletes). A result too large for one response is split into the tasks of a plan (plan). Read in this order.
"""
