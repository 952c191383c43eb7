"""One folder a system: sources, sinks, the position each table keeps, and the commit protocol they share."""
