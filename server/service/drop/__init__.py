"""Drop, undrop and purge of tables, views and namespaces."""
