"""The worker: leases one job after another from the server over REST and runs it with Spark.

It may not import the server or open its database; what it knows of a table comes with the lease or from the catalog.
"""
