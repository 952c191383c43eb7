"""Spark applications beside the drivers: the warm Connect server, a temporary one, the standalone master."""
