"""Search: the words of tables, views and Hive tables, and what a typed text matches. It reads nothing itself."""
