"""The documentation as a site: the pages of docs/, and references that are generated from the code."""
