"""What a name in a catalog stands for, and the planner's last assessment of it."""
