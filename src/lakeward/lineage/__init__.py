"""Lineage: OpenLineage events of streams, maintenance and check runs, made from the registry by one process."""
