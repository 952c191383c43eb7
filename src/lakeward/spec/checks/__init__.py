"""Semantic checks and lints of specs, beyond the types of values. Pure, except for files that a spec names."""
