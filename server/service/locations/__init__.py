"""Where tables may have files: the location rule, allowed locations, ownership and misplaced tables."""
