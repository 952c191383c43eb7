"""A query's checkpoint: layout, files, preflight before a start, compatibility with a spec, rebuild, state store."""
