"""Access to a table's files for its users: the locations, the actions and the signed requests."""
