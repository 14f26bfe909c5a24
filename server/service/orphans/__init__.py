"""Safe removal of files that no table needs: proposed by an optimizer, proved and carried out here."""
