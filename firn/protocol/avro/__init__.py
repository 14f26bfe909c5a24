"""Records in the wire format of Confluent's serializers: a schema id, then Avro. The schemas are in a registry.

Drains read such records in Spark's Python tasks, and the server reads a few of them for `firn log check`.
"""
