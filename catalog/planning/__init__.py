"""What planning knows of a table, and what it says. The kinds of jobs are above it, in catalog.maintenance.

Read in this order: facts, need, schedules, file_rules, held, windows.
"""

from catalog.planning.backoff import find_failure_backoff
from catalog.planning.facts import Due, NotDue, TableFacts

__all__ = ["Due", "NotDue", "TableFacts", "find_failure_backoff"]
