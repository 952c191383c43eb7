"""How batches get into a sink: one module a sink, `choose` picks the one a spec names."""
