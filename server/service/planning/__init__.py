"""Planning: the planner and its loop, policies, health scores, file layouts, and the overview of maintenance."""
