"""Kafka: topics as a source with positions, a topic as an at-least-once sink, and what the broker says from outside."""
