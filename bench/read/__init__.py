"""What reading keyed tables costs: `python -m bench.read` (bench/read/__main__.py)."""
