"""Access control: who is asking, what they may do, what was decided, and the administration of all that."""
