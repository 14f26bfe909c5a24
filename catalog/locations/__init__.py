"""Locations of tables and files: their text forms, links, and the rule that allows or refuses them."""
