"""Safe removal of files that no table needs: an optimizer proposes them, the server proves and removes them."""
