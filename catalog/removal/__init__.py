"""Removal of data from a catalog: dropped tables, orphan files, and the proof that nothing else needs the files."""
