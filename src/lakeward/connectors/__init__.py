"""Connectors, one folder for each system: sources, sinks, positions of tables, and the commit protocol they share."""
