"""What it costs to bring a topic of Kafka into a keyed table: see `python -m bench.stream --help`."""
