"""The history of tables and views: changes are described when a commit applies them, and compared and rolled back
later.
"""
