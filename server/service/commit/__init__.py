"""The commit path: contexts, contention, the transaction that moves the pointers, and idempotency keys."""
