"""Access to a table's files for those who may use the table: which places, which actions, which requests."""
