"""What users import and run: client, command line, Spark helpers, and a metastore for one machine.

It imports nothing else of this repository, so it can be installed beside any Spark job.
"""
