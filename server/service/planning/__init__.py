"""Planning: the planner and its loop, policies, file layouts, and the overview of all background work."""
