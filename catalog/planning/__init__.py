"""Which job a table needs now, why, and what it will gain; or why it needs none.

Read in this order: facts, need, schedules, changes, files, keeping, held, windows, prediction, decide.
"""

from catalog.planning.decide import decided
from catalog.planning.facts import Due, NotDue, TableFacts
from catalog.planning.held import backing_off

__all__ = ["Due", "NotDue", "TableFacts", "backing_off", "decided"]
