"""The locations of tables: the location rule, allowed locations, ownership and misplaced tables."""
