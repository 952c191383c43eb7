"""What a spec must be beyond the types of its values, and lints. Pure, but for files the spec names."""
