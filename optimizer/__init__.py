"""The worker: leases one job after another from the server over REST and runs it with Spark.

It may not import the server or open its database. Its facts about a table come with the lease or from the catalog.
"""
