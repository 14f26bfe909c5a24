"""What Firn's promises about speed are measured with; each module is one command, `python -m bench` runs them all.

A benchmark compares Firn with what a user would do otherwise, on the same data, in the same run, in rounds that take
turns, because machines are noisy and ratios survive that better than seconds. It checks the answers it times.
Results are lines of JSON. Linux only: CPU seconds come from /proc.
"""
