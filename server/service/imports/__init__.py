"""Importing tables: `register` takes one over, `sources` list what there is, `imports` carries whole imports out."""
