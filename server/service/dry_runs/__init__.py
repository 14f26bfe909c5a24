"""Dry runs: what a job would do now, told from metadata and manifests by the facts that it would be given."""
