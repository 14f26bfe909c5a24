"""Tables, keyed tables, views and namespaces, and the metadata files that they point to."""
