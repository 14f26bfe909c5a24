"""Client of other REST catalogs: it only reads them, and does not trust their answers."""
