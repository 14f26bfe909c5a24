"""Data files and manifests as values: packing of small files, and the layout of a table's files."""
