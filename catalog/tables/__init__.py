"""Relations, which names in a catalog stand for, and the planner's last assessment of them."""
