"""Planning: the facts about a table, and the results of triggers. The kinds of jobs are above it, in
catalog.maintenance.

Read in this order: facts, trigger_result, schedules, file_rules, backoff, windows.
"""

from catalog.planning.backoff import find_failure_backoff
from catalog.planning.facts import Due, NotDue, TableFacts

__all__ = ["Due", "NotDue", "TableFacts", "find_failure_backoff"]
