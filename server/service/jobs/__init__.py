"""Background jobs: the queue, admission, leases with their heartbeats, and the tasks that leases carry."""
