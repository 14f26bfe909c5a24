"""Dry runs: reports of a job's effect, from metadata and manifests, with the facts that the job would get."""
