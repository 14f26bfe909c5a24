"""The service: one process, or many behind a balancer, with state only in the database.

It never starts a JVM and never imports the optimizer or what users import: both reach it over REST.
Data flows api, iceberg -> service -> catalog; store, metastore and files are adapters that only app.py names.
"""
