"""Data files and manifests as values: which small files are packed together, and how a table's files lie."""
