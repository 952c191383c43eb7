"""Metrics: what the registry knows, for Prometheus and whatever reads its format."""
