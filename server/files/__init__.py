"""Files of the warehouse and of Hive: bytes by location, listings, Parquet footers, Iceberg manifests.

The only package that opens a file.  A *location* is a string as Iceberg and Hive store it: a local path, `file:` in any
of its spellings, or a URI whose scheme PyIceberg's FileIO knows.  Locations are taken literally: `%3A` in one is three
characters of a name, because that is how Hadoop reads them.
"""
