"""Connections to Kafka, and the log stores of tables."""
