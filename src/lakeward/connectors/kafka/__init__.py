"""Kafka: topics as a source with positions, a topic as an at-least-once sink, offsets and topics from the broker."""
