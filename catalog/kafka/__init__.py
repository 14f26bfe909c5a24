"""Kafka clusters and topics, as the server knows them: connections, the state of a topic, and decoded records."""
