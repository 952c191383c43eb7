"""How a batch gets into a sink: one module a sink; `choose` picks the one a spec names."""
