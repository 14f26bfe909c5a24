"""The Iceberg REST catalog, as engines speak it: paths, bodies and error names of the specification.

It may not apply a metadata update or judge a commit itself: catalog and service do.
"""
