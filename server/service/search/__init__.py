"""Search over all catalogs: the task that fills the index, and the answers."""
