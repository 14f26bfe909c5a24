"""Kafka through confluent-kafka, the client on librdkafka. It is an extra: the server starts without it."""
