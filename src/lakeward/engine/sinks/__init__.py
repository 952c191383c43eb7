"""Sinks of a running stream: one class per sink, which composes a writer. `choose` makes the one that a spec names."""
