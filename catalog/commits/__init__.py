"""Whether a commit is applied: the order of its checks, and appends that are put onto a newer snapshot."""
