"""Where tables and files may lie: locations as text, links, and the rule that allows or refuses them."""
