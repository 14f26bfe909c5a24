"""The Iceberg REST catalog: paths, bodies and error names of the specification.

This package applies no metadata updates and validates no commits: catalog and server.service do.
"""
