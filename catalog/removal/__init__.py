"""What leaves a catalog: dropped tables, orphan files, and the proof that files belong to nobody else."""
